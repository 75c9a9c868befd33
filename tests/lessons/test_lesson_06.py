"""Lesson 06: what its cells assert fails without the faults; its checks tell right from wrong."""

from __future__ import annotations

import argparse
import inspect
import os
import shlex
import sys
from pathlib import Path

import pytest
import torch
from torch.optim import AdamW

from lesson_cells import run_until, verdict
from lesson_files import ROOT, lesson
from loadwrap import JobFailed, Run, torchrun
from loadwrap.checkpoints import explain_keys
from loadwrap.lessons.lesson_06 import check_mystery, check_plain, check_restore, make_mystery

SCRIPT = str(ROOT / "launch" / "one_process.py")


@pytest.mark.usefixtures("beside_the_lessons")
def test_lesson_06_fails_without_the_faults(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    every_part = (
        "return 0  # a fresh run starts at epoch 0",
        'optimizer.load_state_dict(checkpoint["optimizer"])\n'
        '    scheduler.load_state_dict(checkpoint["scheduler"])\n'
        '    return checkpoint["epoch"]',
    )
    plain = ('"args": args}', '"args": vars(args)}')
    harmless = ("return exec, (", "return str, (")
    faults = {"listing": every_part, "refused": plain, "gift": harmless}
    failed = run_until(lesson(6), "gift", faults)
    assert failed == ["parts-lost", "refused", "gift"]
    assert set(lesson(6).metadata["lesson"]["claims"].values()) <= set(failed)


# Exercise 1


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def weights_of(path: str, name: str, prefix: str) -> dict[str, torch.Tensor]:
    weights = torch.load(path)["nets"][name]
    return {key.removeprefix(prefix): tensor for key, tensor in weights.items()}


def load_the_average(path, model) -> None:
    model.load_state_dict(weights_of(path, "classifier_average", "model."))


def load_one_layer(path, model) -> None:
    weights = weights_of(path, "classifier", "module._orig_mod.model.")
    model.load_state_dict({"0.weight": weights["0.weight"]}, strict=False)


def load_in_silence(path, model) -> None:
    weights = weights_of(path, "classifier", "module._orig_mod.model.")
    model.load_state_dict(weights, strict=False)


def load_with_a_prefix(path, model) -> None:
    model.load_state_dict(weights_of(path, "classifier", "module."))


@pytest.mark.parametrize(
    "wrong, says",
    [
        (lambda path, model: model.load_state_dict(torch.load(path), strict=False), "nothing was"),
        (
            lambda path, model: model.load_state_dict(torch.load(path)),
            'RuntimeError: Error(s) in loading state_dict for Sequential; missing: "0.weight", …; '
            'unexpected: "when", ….',
        ),
        (load_with_a_prefix, 'unexpected: "_orig_mod.model.0.weight", ….'),
        (load_in_silence, "of a file without 0.weight it loads the rest"),
        (lambda path, model: None, "nothing was"),
        (load_the_average, "of the average"),
        (load_one_layer, "only a part"),
    ],
)
def test_a_mystery_that_is_not_read(capsys, wrong, says: str) -> None:
    said = verdict(capsys, check_mystery, wrong, net)
    assert said.startswith("Not yet: ") and says in said


def load_by_hand(path, model) -> None:
    model.load_state_dict(weights_of(path, "classifier", "module._orig_mod.model."))


def load_into_each(path, model) -> None:
    weights = torch.load(path)["nets"]["classifier"]
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(weights[f"module._orig_mod.model.{name}"])


def load_what_is_explained(path, model) -> None:
    model.load_state_dict(explain_keys(path, model).rename(torch.load(path)))


def load_and_read_what_is_missing(path, model) -> None:
    weights = weights_of(path, "classifier", "module._orig_mod.model.")
    assert not model.load_state_dict(weights, strict=False).missing_keys


@pytest.mark.parametrize(
    "right",
    [load_by_hand, load_into_each, load_what_is_explained, load_and_read_what_is_missing],
)
def test_a_mystery_that_is_read(capsys, right) -> None:
    assert verdict(capsys, check_mystery, right, net).startswith("Yes: all 7 tensors")


def test_the_mystery_is_a_file_to_look_at(tmp_path: Path) -> None:
    make_mystery(tmp_path / "mystery.pt", net)
    assert set(torch.load(tmp_path / "mystery.pt")["nets"]) == {"classifier", "classifier_average"}


# Exercise 2


def skips_an_epoch(path, model, optimizer, scheduler) -> int:
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return checkpoint["epoch"] + 1


def fills_another_optimizer(path, model, optimizer, scheduler) -> int:
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer = AdamW(model.parameters(), lr=0.01)
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return checkpoint["epoch"]


def forgets_the_moments(path, model, optimizer, scheduler) -> int:
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    optimizer.param_groups[0]["lr"] = scheduler.get_last_lr()[0]
    return checkpoint["epoch"]


def from_the_top(path, model, optimizer, scheduler) -> int:
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return checkpoint["epoch"]


def in_another_order(path, model, optimizer, scheduler) -> int:
    saved = torch.load(path, map_location="cpu")
    parts = {"scheduler": scheduler, "optimizer": optimizer, "model": model}
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["epoch"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("restore")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Run:
    options = {"nproc_per_node": 1, "live": False, "runs": folder / "runs"}
    return torchrun(SCRIPT, "--save", folder / "parts.pt", **options).wait()


@pytest.fixture
def resume(folder: Path, whole: Run, monkeypatch):
    monkeypatch.chdir(folder)

    def resumed(restore) -> Run:
        name = restore.__name__
        source = f"import torch\nfrom torch.optim import AdamW\n\n\n{inspect.getsource(restore)}"
        Path(f"{name}.py").write_text(source)
        arguments = ["--seed", 1, "--resume", "parts.pt", "--restore", f"{name}.py:{name}"]
        return torchrun(SCRIPT, *arguments, nproc_per_node=1, live=False)

    return resumed


@pytest.mark.parametrize(
    "wrong, says",
    [
        (skips_an_epoch, "the epoch at step 135 and the loss at step 135 differ"),
        (fills_another_optimizer, "the learning rate at step 135 and the loss at step 136 differ"),
        (forgets_the_moments, "the loss at step 136 differs"),
    ],
)
def test_a_resume_that_loses_a_part(capsys, whole: Run, resume, wrong, says: str) -> None:
    assert verdict(capsys, check_restore, resume(wrong), whole).startswith(f"Not yet: {says}")


@pytest.mark.parametrize("right", [from_the_top, in_another_order])
def test_a_resume_that_loses_nothing(capsys, whole: Run, resume, right) -> None:
    assert verdict(capsys, check_restore, resume(right), whole).startswith("Yes: ")


def test_the_uninterrupted_run_is_no_resume(capsys, whole: Run) -> None:
    assert "resume one" in verdict(capsys, check_restore, whole, whole)


def test_the_script_says_what_it_cannot_do(folder: Path, whole: Run, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    for words, says in (
        ("--resume parts.pt", "--resume and --restore go together"),
        ("--resume none.pt --restore a.py:b", "no such file"),
        ("--resume parts.pt --restore a.py:b", "no order 'a.py:b'"),
        ("--save nowhere/a.pt", "no such folder"),
        ("--save .", "--save .: this is a folder"),
    ):
        run = torchrun(SCRIPT, *shlex.split(words), nproc_per_node=1, live=False)
        with pytest.raises(JobFailed):
            run.wait()
        assert says in run.stderr(0)


# Exercise 3


@pytest.fixture
def checkpoint() -> dict[str, object]:
    args = argparse.Namespace(lr=0.01, data=Path("data/digits"), sizes=(16, 32))
    model = net()
    optimizer = AdamW(model.parameters()).state_dict()
    return {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer, "args": args}


def changes_the_args(checkpoint):
    options = vars(checkpoint["args"])
    options["data"] = os.fspath(options["data"])
    return {**checkpoint, "args": options}


@pytest.mark.parametrize(
    "wrong, says",
    [
        (lambda ckpt: ckpt, "refuses argparse.Namespace, pathlib"),
        (lambda ckpt: {**ckpt, "args": vars(ckpt["args"])}, "refuses pathlib"),
        (lambda ckpt: {"model": ckpt["model"]}, "lacks 'epoch'"),
        (lambda ckpt: {**ckpt, "args": {"lr": 0.01}}, "lost its 'data'"),
        (lambda ckpt: {**ckpt, "args": str(ckpt["args"])}, "came back as str"),
        (lambda ckpt: {**by_hand(ckpt), "model": {}}, "'model' in the file is not"),
        (lambda ckpt: {**by_hand(ckpt), "optimizer": {}}, "'optimizer' in the file is not"),
        (lambda ckpt: {**by_hand(ckpt), "epoch": 0}, "'epoch' in the file is not"),
        (changes_the_args, "changed the args"),
    ],
)
def test_a_file_that_not_everybody_can_open(capsys, checkpoint, wrong, says: str) -> None:
    said = verdict(capsys, check_plain, wrong, checkpoint)
    assert said.startswith("Not yet: ") and says in said
    assert checkpoint["args"].data == Path("data/digits"), "as the training left it"


def by_hand(checkpoint):
    args = checkpoint["args"]
    plain = {"lr": args.lr, "data": str(args.data), "sizes": list(args.sizes)}
    return {**checkpoint, "args": plain}


def by_type(checkpoint):
    options = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in vars(checkpoint["args"]).items()
    }
    return dict(checkpoint, args=options)


@pytest.mark.parametrize("right", [by_hand, by_type])
def test_a_file_that_everybody_can_open(capsys, checkpoint, right) -> None:
    assert verdict(capsys, check_plain, right, checkpoint).startswith("Yes: ")
