"""What the live figure costs a training of 20 seconds on two ranks and two cores.

The training's wall time is taken from what the ranks leave: from the header of a metrics file,
written with its first record, to the file's last modification, which is its last record. The
control is followed by nobody: ``live=False``, and a cell that only asks for the run's state.
"""

import json
from pathlib import Path
from statistics import median

import bare
import notebook
import psutil
from plan import Plan
from table import Row, ratio

LIVE = "run = torchrun(script, '--steps', steps, nproc_per_node=2)"
ALONE = """
run = torchrun(script, '--steps', steps, nproc_per_node=2, live=False)
while run.state == 'running':
    time.sleep(0.2)
"""


def measure(plan: Plan) -> list[Row]:
    target = 6.0 if plan.quick else 20.0
    with notebook.opened(plan.folder) as kernel:
        kernel.cell(f"import time\nfrom loadwrap import torchrun\nscript = {str(bare.TRAIN)!r}")
        for steps in (200, 600):  # the first is slow: files are read, the figure is drawn
            taken = training_time(kernel, LIVE, steps)
        steps = round(600 * target / taken)
        process = psutil.Process(kernel.pid)
        live, alone, busy = [], [], []
        for turn in range(plan.repeats):
            for kind in (LIVE, ALONE) if turn % 2 else (ALONE, LIVE):
                before = sum(process.cpu_times()[:2])
                taken = training_time(kernel, kind, steps)
                (live if kind is LIVE else alone).append(taken)
                if kind is LIVE:
                    busy.append((sum(process.cpu_times()[:2]) - before) / taken)
            plan.say(f"{steps} steps: live {live[-1]:.2f} s, live=False {alone[-1]:.2f} s")
    times = ratio(live, alone)
    return [
        Row(
            "training with the live figure, against live=False (2 ranks)",
            "1.06",
            f"{times:.3f} ({median(live):.2f} s against {median(alone):.2f} s; the kernel used "
            f"{median(busy):.1%} of a core)",
            times <= 1.06,
        )
    ]


def training_time(kernel: notebook.Notebook, kind: str, steps: int) -> float:
    directory = Path(
        kernel.value(f"steps = {steps}\n{kind}\nrun.wait()\nstr(run.directory.resolve())", 300)
    )
    files = sorted((directory / "metrics").glob("rank*.jsonl"))
    starts, ends = [], []
    for file in files:
        with file.open() as lines:
            starts.append(json.loads(next(lines))["header"]["time_ns"])
        ends.append(file.stat().st_mtime_ns)
    return (max(ends) - min(starts)) / 1e9
