"""--error on what a real torchrun job leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadwrap import JobFailed, torchrun
from loadwrap.doctor import main

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 4, 3)
        self.fc = torch.nn.Linear(4, 2)

def main():
    dist.init_process_group("gloo")
    saved = DistributedDataParallel(Net()).state_dict()
    Net().load_state_dict(saved)

main()
"""


def test_the_log_of_a_job_whose_load_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with pytest.raises(JobFailed) as caught:
        torchrun(str(script), nproc_per_node=2, live=False, runs=tmp_path / "runs").wait()
    log = tmp_path / "job.log"
    log.write_text(str(caught.value))
    capsys.readouterr()
    assert main(["--error", str(log), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["errors"]
    assert [(one["model"], one["missing"], one["unexpected"]) for one in told] == [("Net", 4, 4)]
    assert told[0]["keys"]["prefix"] == "module."
    assert told[0]["keys"]["after"] == [4, 4]
    assert caught.value.directory is not None
    for stderr in Path(caught.value.directory).rglob("stderr.log"):
        text = stderr.read_text()
        if "Missing key" in text:
            assert main(["--error", str(stderr)]) == 1
            assert 'removeprefix("module.")' in capsys.readouterr().out
