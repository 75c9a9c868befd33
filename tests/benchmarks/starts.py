"""How long until a job says its first line: warm, cold, and before the host is ready.

The clock starts with the call (of ``torchrun(...)`` in a cell, of the ``torchrun`` program in a
terminal) and ends with the time stamp in the first line of the last rank; the script imports
torch before it prints. Calls in a cell are as a learner makes them: ``live=True``. Each pair is
measured one right after the other, so that both find the same file cache.
"""

from statistics import median

import bare
import notebook
from plan import Plan
from table import Row, ratio, seconds


def measure(plan: Plan) -> list[Row]:
    rows = []
    with notebook.opened(plan.folder) as kernel:
        kernel.cell("import time\nfrom loadwrap import torchrun")
        in_cell(kernel, 2)  # the first launch waits for the host; the first figure is drawn
        bare.first_line(2)
        for ranks, reach in ((2, 20), (8, 30)):
            warm, cold = [], []
            for _ in range(plan.repeats):
                cold.append(bare.first_line(ranks))
                warm.append(in_cell(kernel, ranks))
                plan.say(f"{ranks} ranks: bare {cold[-1]:.2f} s, warm {warm[-1]:.3f} s")
            factor = ratio(cold, warm)
            rows.append(
                Row(
                    f"warm start of {ranks} ranks, against bare torchrun",
                    f"1/{reach}",
                    f"1/{factor:.1f} ({seconds(median(warm))} against {seconds(median(cold))})",
                    factor >= reach,
                )
            )
        rows.append(cold_row(plan, kernel))
    rows.append(first_launch_row(plan))
    return rows


def in_cell(kernel: notebook.Notebook, ranks: int, options: str = "") -> float:
    """Returns the seconds from a call in a cell to the first line of the last rank."""
    return kernel.value(f"""
start = time.time_ns()
run = torchrun({str(bare.FIRST_LINE)!r}, nproc_per_node={ranks}{options})
(max(int(run.stdout(rank).split()[0]) for rank in range({ranks})) - start) / 1e9
""")


def cold_row(plan: Plan, kernel: notebook.Notebook) -> Row:
    """A difference of 5 % is below what one start varies by: more pairs, in turning order."""
    ours, theirs = [], []
    for turn in range(plan.repeats if plan.quick else 11):
        if turn % 2:
            ours.append(in_cell(kernel, 2, ", warm=False"))
        theirs.append(bare.first_line(2))
        if not turn % 2:
            ours.append(in_cell(kernel, 2, ", warm=False"))
        plan.say(f"bare {theirs[-1]:.2f} s, warm=False {ours[-1]:.2f} s")
    times = ratio(ours, theirs)
    return Row(
        "warm=False, against bare torchrun (2 ranks)",
        "1.05",
        f"{times:.3f} ({seconds(median(ours))} against {seconds(median(theirs))})",
        times <= 1.05,
    )


def first_launch_row(plan: Plan) -> Row:
    """A fresh kernel each time; the call follows the import in the same cell."""
    ours, theirs = [], []
    for _ in range(plan.repeats):
        theirs.append(bare.first_line(2))
        with notebook.opened(plan.folder) as kernel:
            kernel.cell("import time")
            taken = kernel.value(f"""
start = time.time_ns()
from loadwrap import torchrun
run = torchrun({str(bare.FIRST_LINE)!r}, nproc_per_node=2)
(max(int(run.stdout(rank).split()[0]) for rank in range(2)) - start) / 1e9
""")
        ours.append(taken)
        plan.say(f"bare {theirs[-1]:.2f} s, first launch {ours[-1]:.2f} s")
    times = ratio(ours, theirs)
    return Row(
        "first launch, before the host is ready, against bare torchrun",
        "1.3",
        f"{times:.2f} ({seconds(median(ours))} against {seconds(median(theirs))})",
        times <= 1.3,
    )
