"""A run that somebody else started: found, followed, and known to have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadwrap import LaunchError, Run, torchrun
from loadwrap.curves.store import UnknownMetric
from loadwrap.folder import RUN_ENV

SCRIPT = """
import time
from loadwrap import log
for step in range(20):
    log(step, loss=1 / (step + 1))
    time.sleep(0.05)
"""


def test_a_clusters_run_is_followed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    env = {**os.environ, RUN_ENV: str(tmp_path / "shared"), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen([sys.executable, tmp_path / "train.py"], env={**env, "RANK": str(rank)})
        for rank in (0, 1)
    ]
    deadline = time.monotonic() + 60
    while not (tmp_path / "shared" / "metrics").is_dir() and time.monotonic() < deadline:
        time.sleep(0.02)
    run = Run.open(tmp_path / "shared").follow()
    assert run.state == "finished"
    assert [len(steps) for steps, _ in run.curve("loss").values()] == [20, 20]
    assert [rank.wait() for rank in ranks] == [0, 0]


def test_a_run_remembers_its_pattern(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('step 3: loss 0.25')\n")
    pattern = r"step (?P<step>\d+): loss (?P<loss>\S+)"
    script = str(tmp_path / "plain.py")
    run = torchrun(script, live=False, pattern=pattern, runs=tmp_path / "runs").wait()
    steps, values = Run.open(run.directory).curve("loss")[0]
    assert (steps.tolist(), values.tolist()) == ([3], [0.25])


def test_a_metric_that_nobody_logged_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from loadwrap import log\nlog(0, loss=1.0)\n")
    run = torchrun(str(tmp_path / "train.py"), live=False, runs=tmp_path / "runs").wait()
    with pytest.raises(UnknownMetric, match="it logged: loss") as caught:
        run.curve("los")
    assert caught.value._render_traceback_() == [f"UnknownMetric: {caught.value}"]
    assert repr(run) == "Run(train.py, 1 rank, finished)"


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="not a run folder"):
        Run.open(tmp_path)
