"""Eight ranks that each log 5,000 records a second for ten seconds, followed live in a cell.

Nothing may be lost: every step of every rank is there, in order, with its value. The kernel's
memory is the growth of its peak over what it had before, after a short run had loaded what
draws. The job's end is the last rank's own last word; the cell's end is the kernel's ``idle``.
"""

from statistics import median

import bare
import notebook
from plan import Plan
from table import Row, seconds

RANKS, RATE, SECONDS = 8, 5_000, 10
MOST_MB = 100
CHECK = """
import numpy as np
whole = sorted(curves) == list(range(RANKS)) and all(
    np.array_equal(steps, np.arange(N)) and np.array_equal(values, 1.0 / (np.arange(N) + 1))
    for steps, values in curves.values()
)
ends = [run.stdout(rank).split() for rank in range(RANKS)]
took, ended = max(float(one[0]) for one in ends), max(int(one[1]) for one in ends)
[whole, sum(len(steps) for steps, _ in curves.values()), took, ended]
"""


def measure(plan: Plan) -> list[Row]:
    duration = 3 if plan.quick else SECONDS
    whole, growths, lags, counts, durations = [], [], [], [], []
    with notebook.opened(plan.folder) as kernel:
        kernel.cell("from loadwrap import torchrun")
        flood(kernel, 100, 1)
        for _ in range(plan.repeats):
            before = reset_peak(kernel)
            idle = flood(kernel, RATE, duration)
            growths.append(status(kernel, "VmHWM") - before)
            check = CHECK.replace("RANKS", str(RANKS)).replace("N)", f"{RATE * duration})")
            check = check.replace("N) +", f"{RATE * duration}) +")
            kernel.cell("curves = run.curve('loss')")
            complete, count, took, ended = kernel.value(check)
            whole.append(complete)
            counts.append(count)
            durations.append(took)
            lags.append((idle - ended) / 1e9)
            verdict = "all there" if complete else "NOT ALL THERE"
            plan.say(
                f"{count:,} records in {took:.1f} s, {verdict}; kernel +{growths[-1]:.0f} MB; "
                f"the cell ended {lags[-1]:.2f} s after the job"
            )
    ok = all(whole) and max(growths) <= MOST_MB and median(lags) <= 2
    lost = "nothing lost" if all(whole) else "RECORDS LOST"
    return [
        Row(
            f"{RANKS} ranks logging {RATE:,} records/s for {duration} s, followed live",
            f"nothing lost, +{MOST_MB} MB, 2 s",
            f"{lost} of {median(counts):,.0f} in {median(durations):.1f} s, "
            f"kernel +{max(growths):.0f} MB, cell ends {seconds(median(lags))} after the job",
            ok,
        )
    ]


def flood(kernel: notebook.Notebook, rate: int, duration: float) -> int:
    """Runs the job live; returns the moment (``time_ns``) at which its cell had ended."""
    last = 0

    def observe(message: object, arrived: int) -> None:
        nonlocal last
        last = arrived

    script = str(bare.SCRIPTS / "flood.py")
    kernel.cell(
        f"run = torchrun({script!r}, {rate}, {duration}, nproc_per_node={RANKS})", observe=observe
    )
    return last


def reset_peak(kernel: notebook.Notebook) -> float:
    """Makes the kernel's peak what it has now, and returns that in MB."""
    kernel.cell("import gc\ngc.collect()\nopen('/proc/self/clear_refs', 'w').write('5')")
    return status(kernel, "VmRSS")


def status(kernel: notebook.Notebook, field: str) -> float:
    lines = open(f"/proc/{kernel.pid}/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))
