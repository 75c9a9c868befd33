"""How fast the doctor tells what lies in 5 GB, and how much memory it takes for it."""

import subprocess
import sys
from statistics import median

import bare
import notebook
from plan import Plan
from table import Row, seconds

REACH = 1.2
MOST_MB = 150


def measure(plan: Plan) -> list[Row]:
    path = plan.folder / "five_gb.pt"
    script("five_gb.py", path)
    size = path.stat().st_size / 1e9
    taken: dict[str, list[tuple[float, float]]] = {"torch": [], "doctor": []}
    for _ in range(plan.repeats):
        for how in taken:
            took, grown = map(float, script("examine.py", how, path).split())
            taken[how].append((took, grown))
    path.unlink()
    loaded = median(took for took, _ in taken["torch"])
    told = median(took for took, _ in taken["doctor"])
    grown = max(grown for _, grown in taken["doctor"])
    words = f"{told / loaded:.2f} ({seconds(told)} against {seconds(loaded)})"
    return [
        Row(
            f"doctor on a {size:.1f} GB file, against torch.load(mmap=True) (imports apart)",
            str(REACH),
            words,
            told <= REACH * loaded,
        ),
        Row(
            "resident growth of the doctor on it",
            f"{MOST_MB} MB",
            f"{grown:.0f} MB",
            grown <= MOST_MB,
        ),
    ]


def script(name: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, str(bare.SCRIPTS / name), *map(str, arguments)],
        env=notebook.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout
