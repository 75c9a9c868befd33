"""What one ``log(step, loss=…)`` costs the rank that calls it."""

import subprocess
import sys
from statistics import median

import bare
import notebook
from plan import Plan
from table import Row


def measure(plan: Plan) -> list[Row]:
    done = subprocess.run(
        [sys.executable, str(bare.SCRIPTS / "log_calls.py"), str(plan.repeats)],
        env=notebook.environment(LOADWRAP_RUN=plan.folder / "log", RANK=0, WORLD_SIZE=1),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    cost = median(float(line) for line in done.stdout.split())
    return [
        Row(
            "one log(step, loss=…) call",
            "8 µs",
            f"{cost:.1f} µs ({cost / 10:.2f} % of a step of 1 ms)",
            cost <= 8,
        )
    ]
