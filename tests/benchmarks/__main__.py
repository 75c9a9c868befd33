"""The benchmarks: ``python tests/benchmarks`` measures everything and prints one table.

Everything runs on two cores. A row compares two things measured in the same run wherever there
are two, and gives the median of at least five measurements (``--quick``: fewer and shorter, for
a first look). It ends with status 1 if a row misses its reach.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import checkpoints_doctor
import checkpoints_replicas
import drawing
import following
import latency
import log_call
import machine
import memory
import nbval_runs
import starts
import training
from plan import Plan
from table import Row, lay_out

GROUPS: dict[str, Callable[[Plan], list[Row]]] = {
    "starts": starts.measure,
    "training": training.measure,
    "memory": memory.measure,
    "log_call": log_call.measure,
    "latency": latency.measure,
    "drawing": drawing.measure,
    "following": following.measure,
    "lessons": nbval_runs.measure,
    "checkpoints_doctor": checkpoints_doctor.measure,
    "checkpoints_replicas": checkpoints_replicas.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    parser.add_argument(
        "--patience",
        type=float,
        default=30,
        metavar="SECONDS",
        help="how long to wait, before each group, for other processes to leave the machine",
    )
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")

    cores = machine.use_two_cores()
    rows: list[Row] = []
    start = time.monotonic()
    for name in options.groups or GROUPS:
        before = machine.wait_until_quiet(options.patience)
        print(f"{name} (other processes use {before:.0%} of the cores)", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            try:
                found = GROUPS[name](Plan(Path(folder), options.quick))
            except Exception as error:  # the other groups still count
                text = f"{type(error).__name__}: {error}"
                print(text, file=sys.stderr)
                found = [Row(name, "", f"could not be measured: {text.splitlines()[0]}", False)]
        busy = max(before, machine.load_of_others()) > machine.BUSY
        rows += [replace(row, busy=busy) for row in found]
    repeats = "medians of 2, shortened" if options.quick else "medians of 5 or more"
    print(f"\n{machine.facts(cores)}; {repeats}, {time.monotonic() - start:.0f} s\n")
    print(lay_out(rows))
    if any(row.busy for row in rows):
        print("\nbusy: other processes used the machine; measure again when it does nothing else.")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
