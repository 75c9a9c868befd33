"""What it costs to know that the replicas are equal."""

import subprocess
import sys
from statistics import median

import bare
import notebook
from plan import Plan
from table import Row, seconds


def measure(plan: Plan) -> list[Row]:
    return [fingerprint(plan), in_sync(plan)]


def fingerprint(plan: Plan) -> Row:
    command = [sys.executable, str(bare.SCRIPTS / "fingerprints.py"), str(plan.repeats)]
    taken, control = both(command)
    return row("fingerprint of 1 GB, against x.sum() of it as float32", 3.5, taken, control)


def in_sync(plan: Plan) -> Row:
    command = bare.command(2, bare.SCRIPTS / "in_sync.py", plan.repeats)
    taken, control = both(command)
    name = "assert_in_sync, 100 M parameters, against an all-reduce of the gradients (2 ranks)"
    return row(name, 0.6, taken, control)


def both(command: list[str]) -> tuple[float, float]:
    done = subprocess.run(
        command,
        env=notebook.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    pairs = [line.split() for line in done.stdout.splitlines() if line.count(".") == 2]
    return median(float(pair[0]) for pair in pairs), median(float(pair[1]) for pair in pairs)


def row(name: str, reach: float, taken: float, control: float) -> Row:
    ratio = taken / control
    words = f"{ratio:.2f} ({seconds(taken)} against {seconds(control)})"
    return Row(name, str(reach), words, ratio <= reach)
