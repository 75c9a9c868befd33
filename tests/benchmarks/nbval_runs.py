"""Every lesson and its solution under nbval, one after another on an otherwise idle machine."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import notebook
from plan import Plan
from table import Row

ROOT = Path(__file__).resolve().parents[2]
SERIES_S = 480
EACH_S = 30
LONGER_S = {"08": 60}  # twenty-two launches: the ladder of what a resume restores


def measure(plan: Plan) -> list[Row]:
    lessons = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    solutions = sorted((ROOT / "notebooks" / "solutions").glob("[0-9][0-9]_*.ipynb"))
    times: dict[Path, list[float]] = {}
    failed = []
    for _ in range(1 if plan.quick else plan.repeats):
        for path in [*lessons, *solutions]:
            start = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-cell-timeout=120"]
                + ["--nbval-sanitize-with", "tests/nbval_sanitize.cfg", str(path)],
                cwd=ROOT,
                env=notebook.environment(IPYTHONDIR=plan.folder / "ipython"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                timeout=600,
            )
            times.setdefault(path, []).append(time.monotonic() - start)
            if done.returncode:
                failed.append(path.relative_to(ROOT))
            plan.say(f"{path.relative_to(ROOT)}: {times[path][-1]:.1f} s")
    taken = {path: median(each) for path, each in times.items()}
    verdict = f"FAILED: {', '.join(map(str, failed))}" if failed else "all passed"
    whole = sum(taken.values())
    rows = [
        Row(
            f"the series under nbval, {len(lessons)} lessons with solutions",
            f"{SERIES_S} s",
            f"{whole:.0f} s, {verdict}",
            whole <= SERIES_S and not failed,
        )
    ]
    for path in lessons:
        reach = LONGER_S.get(path.name[:2], EACH_S)
        rows.append(Row(f"lesson {path.name[:2]} under nbval", f"{reach} s",
                        f"{taken[path]:.0f} s", taken[path] <= reach))  # fmt: skip
    return rows
