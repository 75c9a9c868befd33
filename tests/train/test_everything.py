"""launch/everything.py: it saves all that it needs, and goes on as the one says who restores."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest
import torch

from loadwrap import Run, first_difference, torchrun

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
RESTORE = """
import torch
import torch.distributed as dist


def everything(job, saved):
    job.ddp.module.load_state_dict(saved["model"])
    for part in ("optimizer", "scheduler", "scaler", "ema"):
        getattr(job, part).load_state_dict(saved[part])
    job.step = saved["step"]
    job.open_loader()
    torch.set_rng_state(saved["rng"][dist.get_rank()])


def nothing(job, saved):
    pass
"""


@pytest.fixture
def everything(script, monkeypatch):
    """The module, imported beside train.py and orders.py."""
    monkeypatch.delitem(sys.modules, "everything", raising=False)
    yield importlib.import_module("everything")
    sys.modules.pop("everything", None)


def job(*options: object) -> Run:
    options = ("--cpu", "--steps", 10, *options)
    return torchrun(LAUNCH / "everything.py", *options, nproc_per_node=2, live=False).wait()


@pytest.mark.parametrize("at", [3, 7, 9])  # inside an epoch of 7 steps, at its end, after it
def test_it_resumes_without_a_trace(tmp_path: Path, at: int) -> None:
    Path("mine.py").write_text(RESTORE)
    small = ("--batch-size", 102)
    whole = job("--save", "all.pt", "--save-at", at, *small)
    again = job("--resume", "all.pt", "--restore", "mine.py:everything", "--seed", 1, *small)
    for metric in ("loss", "lr", "scale"):
        assert first_difference(whole, again, metric) is None
    assert again.curve("loss")[0][0][0] == at
    for metric in ("test_loss", "ema_test_loss"):
        for rank, (_, values) in whole.curve(metric).items():
            assert again.curve(metric)[rank][1][-1] == values[-1]
    if at == 3:
        fresh = job("--resume", "all.pt", "--restore", "mine.py:nothing", "--audit", "--stop", 0)
        assert "first fault: F04" in fresh.stdout(0)


def test_the_checkpoint_is_a_plain_dict(tmp_path: Path) -> None:
    job("--save", "all.pt", "--save-at", 1, "--stop", 1)
    saved = torch.load("all.pt", weights_only=True)
    parts = {"step", "model", "optimizer", "scheduler", "scaler", "ema", "rng"}
    assert set(saved) == parts and saved["step"] == 1
    assert len(saved["rng"]) == 2 and not torch.equal(*saved["rng"])


def test_the_save_shows_its_lines(everything) -> None:
    """A lesson shows this function: nothing of it may hide in another."""
    text = inspect.getsource(everything.save)
    assert "torch.save(" in text and text.count("state_dict()") == 5
    assert "save_checkpoint" not in (LAUNCH / "everything.py").read_text()


def test_ddp_is_gone_before_the_group_is(everything) -> None:
    """If the last reference to DDP outlives its process group, a rank can hang for ever."""
    calls = [
        ast.unparse(statement.value.func)
        for statement in ast.parse(inspect.getsource(everything.main)).body[0].body
        if isinstance(statement, ast.Expr)
    ]
    assert calls[-3:] == ["train", "dist.barrier", "dist.destroy_process_group"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--save", "a.pt"), "--save and --save-at go together"),
        (("--resume", "a.pt"), "--resume and --restore go together"),
        (("--resume", "a.pt", "--restore", "none.py:f"), "no order 'none.py:f'"),
    ],
)
def test_a_bad_argument_is_told(everything, monkeypatch, capsys, arguments, says) -> None:
    monkeypatch.setattr(sys, "argv", ["everything.py", *arguments])
    with pytest.raises(SystemExit):
        everything.parse_arguments()
    assert says in capsys.readouterr().err
