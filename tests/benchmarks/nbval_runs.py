"""Lessons 00 and 01 with their solutions under nbval, as ``make notebooks`` runs them."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import notebook
from plan import Plan
from table import Row

ROOT = Path(__file__).resolve().parents[2]
MEASURE = "lessons 00 and 01 with solutions under nbval"
REACH_S = 90


def measure(plan: Plan) -> list[Row]:
    found = [
        path
        for folder in ("notebooks", "notebooks/solutions")
        for path in sorted((ROOT / folder).glob("0[01]_*.ipynb"))
    ]
    if len(found) < 4:
        return [Row(MEASURE, f"{REACH_S} s", f"only {len(found)} of 4 notebooks are there", False)]
    times, verdict = [], "passed"
    for _ in range(1 if plan.quick else plan.repeats):
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-cell-timeout=120"]
            + ["--nbval-sanitize-with", "tests/nbval_sanitize.cfg", *map(str, found)],
            cwd=ROOT,
            env=notebook.environment(IPYTHONDIR=plan.folder / "ipython"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        times.append(time.monotonic() - start)
        if done.returncode:
            verdict = "FAILED"
        plan.say(f"{times[-1]:.1f} s: {done.stdout.strip().splitlines()[-1]}")
    taken = median(times)
    ok = taken <= REACH_S and verdict == "passed"
    return [Row(MEASURE, f"{REACH_S} s", f"{taken:.0f} s, {verdict}", ok)]
