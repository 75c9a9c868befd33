"""The memory of eight ranks at work, as PSS: a page that n processes share counts 1/n for each.

Both jobs run ``launch/train.py`` with a run folder; a rank is at work when it has logged 20 steps.
The ranks' pids are those that they log themselves. Warm, the ranks share pages with the host,
so the row counts the ranks; everything around them is given beside it: host and agent, torchrun.
"""

import json
import subprocess
import time
from pathlib import Path
from statistics import median

import bare
import notebook
import psutil
from plan import Plan
from table import Row

RANKS = 8
AT_WORK = 20
LONG = 1_000_000  # steps; the job is stopped long before


def measure(plan: Plan) -> list[Row]:
    warm, plain = [], []
    with notebook.opened(plan.folder) as kernel:
        kernel.cell("from loadwrap import torchrun")
        for turn in range(plan.repeats):
            plain.append(of_bare(plan.folder / f"bare{turn}"))
            warm.append(of_warm(kernel))
            plan.say(
                f"bare {plain[-1][0]:.0f} MB and {plain[-1][1]:.0f}, "
                f"warm {warm[-1][0]:.0f} MB and {warm[-1][1]:.0f}"
            )
    ranks, others = (median(one) for one in zip(*warm, strict=True))
    bare_ranks, bare_others = (median(one) for one in zip(*plain, strict=True))
    factor, whole = bare_ranks / ranks, (bare_ranks + bare_others) / (ranks + others)
    return [
        Row(
            f"memory of {RANKS} ranks at work, against bare torchrun (PSS)",
            "1/3",
            f"1/{factor:.1f} ({ranks:.0f} MB against {bare_ranks:.0f} MB; with host and agent "
            f"{ranks + others:.0f}, with torchrun {bare_ranks + bare_others:.0f}: 1/{whole:.1f})",
            factor >= 3,
        )
    ]


def of_warm(kernel: notebook.Notebook) -> tuple[float, float]:
    run = kernel.value(f"""
run = torchrun({str(bare.TRAIN)!r}, '--steps', {LONG}, nproc_per_node={RANKS}, live=False)
str(run.directory.resolve())
""")
    try:
        return weigh(Path(run), psutil.Process(kernel.pid).children(recursive=True))
    finally:
        kernel.cell("run.stop()")


def of_bare(run: Path) -> tuple[float, float]:
    run.mkdir()
    job = subprocess.Popen(
        bare.command(RANKS, bare.TRAIN, "--steps", LONG),
        env=notebook.environment(LOADWRAP_RUN=run),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_at_work(run)
        torchrun = psutil.Process(job.pid)
        return weigh(run, [torchrun, *torchrun.children(recursive=True)])
    finally:
        job.terminate()
        job.wait(30)


def weigh(run: Path, processes: list[psutil.Process]) -> tuple[float, float]:
    """Returns the megabytes of the ranks, and of the processes beside them."""
    pids = wait_until_at_work(run)
    others = {process.pid for process in processes} - pids
    return sum(map(pss, pids)), sum(map(pss, others))


def wait_until_at_work(run: Path) -> set[int]:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        pids = set()
        for file in (run / "metrics").glob("rank*.jsonl"):
            lines = file.read_text().splitlines()
            if len(lines) > AT_WORK:
                pids.add(json.loads(lines[0])["header"]["pid"])
        if len(pids) == RANKS:
            return pids
        time.sleep(0.1)
    raise RuntimeError(f"of {RANKS} ranks {len(pids)} were at work after 90 s")


def pss(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0  # it has just ended
    return next(
        int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")
    )
