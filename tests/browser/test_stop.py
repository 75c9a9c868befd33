"""The stop and restart buttons of JupyterLab in the middle of a job: nothing of it is left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from browser.jupyterlab import Lab, NotebookPage, alive, wait_for, write_notebook

GONE_S = 3.0
IMPORT = "from loadwrap import torchrun"
# Rank 0 is busy for minutes; the others wait for it in a collective. A DataLoader's worker is a
# process that no one but its rank knows.
SCRIPT = """
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from loadwrap import log

pids = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
batches = iter(DataLoader(range(100), num_workers=1))
next(batches)
me = Path("/proc/self/task") / str(os.getpid()) / "children"
(pids / str(rank)).write_text(f"{os.getpid()} {me.read_text()}")
step = 0
while rank == 0 and time.monotonic() < float(sys.argv[2]) + 120:
    log(step, loss=1 / (step + 1))
    step += 1
    time.sleep(0.01)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def long_job(lab: Lab, tmp_path: Path) -> tuple[str, Path]:
    """Makes a notebook whose second cell starts the job and whose third must not run."""
    folder = lab.folder / "notebooks"
    pids = tmp_path / "pids"
    pids.mkdir()
    (folder / "endless.py").write_text(SCRIPT)
    launch = (
        "import time\n"
        f"run = torchrun('endless.py', {str(pids)!r}, time.monotonic(), nproc_per_node=3)"
    )
    name = f"{tmp_path.name}.ipynb"
    write_notebook(folder / name, IMPORT, launch, "print('the next cell')")
    return f"notebooks/{name}", pids


def start(notebook: NotebookPage, folder: Path) -> list[int]:
    """Runs the notebook until the job is in its middle; returns the pids of its processes."""
    notebook.run_all()
    notebook.wait_until_running(1)
    assert wait_for(lambda: len(list(folder.iterdir())) == 3, 60), notebook.outputs(1)
    assert wait_for(lambda: len(notebook.pictures()) >= 3, 30), "no figure grew"
    pids = [int(word) for file in folder.iterdir() for word in file.read_text().split()]
    assert len(pids) == 6 and alive(pids) == pids
    return pids


@pytest.mark.timeout(150)
def test_stop_ends_the_job_and_shows_one_line(
    long_job: tuple[str, Path], opened: Callable[[str], NotebookPage]
) -> None:
    name, folder = long_job
    notebook = opened(name)
    pids = start(notebook, folder)

    notebook.interrupt()
    assert wait_for(lambda: not alive(pids), GONE_S), f"{alive(pids)} still run"
    notebook.wait_until_run(10)

    errors = notebook.cell(1).locator('[data-mime-type="application/vnd.jupyter.error"]')
    text = errors.inner_text() if errors.count() else notebook.outputs(1)
    assert "stopped" in text
    assert "Traceback" not in notebook.outputs(1)
    assert "the next cell" not in notebook.outputs(2)  # what was queued behind it does not run


@pytest.mark.timeout(150)
def test_a_restarted_kernel_leaves_nothing_of_its_job(
    long_job: tuple[str, Path], opened: Callable[[str], NotebookPage]
) -> None:
    name, folder = long_job
    notebook = opened(name)
    pids = start(notebook, folder)

    notebook.restart()
    assert wait_for(lambda: not alive(pids), 10), f"{alive(pids)} still run"
    notebook.wait_until_idle(60)
