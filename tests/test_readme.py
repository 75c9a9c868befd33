"""What the README prints works as it prints it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import loadwrap
import loadwrap.checkpoints

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]


def test_the_start_is_two_commands() -> None:
    start = README.split("## Start")[1].split("\n## ")[0]
    first, second = [code for _, code in re.findall(r"```(\w+)\n(.*?)```", start, re.DOTALL)][:2]
    assert [line.split("  ")[0] for line in first.splitlines()] == ["make lab", "make test"]
    assert second.startswith("make demo")


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z][a-z-]+)", README):
        if target == "takes":  # "the first `make` takes long"
            continue
        assert re.search(rf"^[a-z ]*\b{target}\b[a-z ]*:", makefile, re.MULTILINE), target


def test_every_name_imported_exists() -> None:
    for code in PYTHON:
        compile(code, "README.md", "exec")
        for names in re.findall(r"from loadwrap import (.*)", code):
            for name in names.split("#")[0].split(","):
                assert getattr(loadwrap, name.strip())
        for name in re.findall(r"from loadwrap.checkpoints import (\w+)", code):
            assert getattr(loadwrap.checkpoints, name)


def test_every_file_linked_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


# What the README promises for one's own environment: this package and torch, nothing else.
NOTHING_ELSE = """
import importlib.machinery
import sys

ABSENT = {"numpy", "matplotlib", "sklearn", "IPython", "psutil"}

class Installed(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in ABSENT else super().find_spec(name, path, target)

sys.meta_path = [f for f in sys.meta_path if f is not importlib.machinery.PathFinder] + [Installed]
"""
SCRIPT = """
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

def build_model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(range(64))
%s
    dist.barrier()
    del model
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""
SAVE = """
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    model = DDP(model)
    for step in range(8):
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    if dist.get_rank() == 0:
        torch.save({"epoch": 0, "step": 8, "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict()}, "last.pt")
"""
WRAP_THEN_LOAD_ON_RANK_0 = """
    model = DDP(model)
    if dist.get_rank() == 0:
        model.load_state_dict(torch.load("last.pt")["model"])
"""
SCHEDULER_AFTER_THE_LOAD = """
    model = DDP(model)
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    scheduler.load_state_dict(checkpoint["scheduler"])
"""


def own_launcher(folder: Path, body: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a script of the user's under a bare torchrun of two ranks."""
    body += "".join(f"    {line}\n" for line in lines.splitlines())
    (folder / "train.py").write_text(NOTHING_ELSE + SCRIPT % body)
    torchrun = Path(sys.executable).with_name("torchrun")
    command = [torchrun, "--standalone", "--nproc-per-node", "2", "train.py"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    saved = own_launcher(folder, SAVE)
    assert saved.returncode == 0, saved.stderr
    return folder


def test_it_raised(broken: Path) -> None:
    line = next(code for language, code in BLOCKS if language == "sh" and "doctor" in code)
    scripts = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", line], cwd=broken, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert 'ckpt["model"]' in done.stdout and 'removeprefix("module.")' in done.stdout
    assert "4 of 4 renamed" in done.stdout


def test_it_raised_and_the_traceback_is_all_there_is(broken: Path) -> None:
    raised = own_launcher(broken, '    model.load_state_dict(torch.load("last.pt")["model"])\n')
    assert raised.returncode != 0
    (broken / "slurm-1.out").write_text(raised.stdout + raised.stderr)
    command = re.search(r"`loadwrap (doctor --error slurm-1.out)`", README)
    assert command
    done = subprocess.run(
        [sys.executable, "-m", "loadwrap.doctor", *command[1].split()[1:]],
        cwd=broken, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "module." in done.stdout


def test_the_loss_jumped(broken: Path) -> None:
    lines = next(code for code in PYTHON if "assert_in_sync" in code)
    done = own_launcher(broken, WRAP_THEN_LOAD_ON_RANK_0, lines)
    assert done.returncode != 0
    told = re.findall(r"ReplicasOutOfSync: .*", done.stderr)
    assert len(told) == 2, done.stderr
    assert "0.weight" in told[0]


def test_it_is_just_worse(broken: Path) -> None:
    lines = next(code for code in PYTHON if "audit_resume" in code)
    done = own_launcher(broken, SCHEDULER_AFTER_THE_LOAD, lines)
    assert done.returncode == 0, done.stderr
    assert "first fault: F07 learning rate" in done.stdout, done.stdout


def test_a_resume_that_is_right_raises_no_alarm(broken: Path) -> None:
    right = SCHEDULER_AFTER_THE_LOAD.splitlines()
    right.insert(1, right.pop(5))  # build the scheduler first
    lines = [code for code in PYTHON if "assert_in_sync" in code or "audit_resume" in code]
    done = own_launcher(broken, "\n".join(right) + "\n", "\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert "first fault" not in done.stdout, done.stdout
