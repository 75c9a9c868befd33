"""Lesson 02: its claims fail without the faults, and its checks know wrong answers from right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lesson_cells import run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap import torchrun
from loadwrap.lessons.cases_02 import TRUTH
from loadwrap.lessons.lesson_02 import (
    FAULTS,
    check_backbone,
    check_diagnosis,
    check_stated,
    unlabelled_runs,
)
from loadwrap.lessons.lineup import plot_lineup

pytestmark = pytest.mark.usefixtures("beside_the_lessons")

TRAIN = "../launch/train.py"


def test_the_claims_fail_without_the_faults() -> None:
    right = ("wrap_then_load_on_rank0", "load_everywhere_then_wrap")
    without = {
        "scene-run": right,
        "witness": right,
        "files": ('f"module.{n}"', "n"),
    }
    failed = run_until(lesson(2), "alibi-numbers", without)
    assert set(lesson(2).metadata["lesson"]["claims"].values()) <= set(failed)
    assert failed == [
        "lineup-numbers",
        "lineup-ranks",
        "modes-measured",
        "strict-table",
        "loose-table",
        "alibi-numbers",
    ]


def test_a_load_that_refuses(capsys) -> None:
    def say(text: str) -> str:
        names: dict[str, object] = {"torch": torch}
        exec(text, names)
        return verdict(capsys, check_stated, names["load_stated"])

    head = "def load_stated(model, weights, missing=(), unexpected=()):\n    "
    found = f"{head}left = model.load_state_dict(weights, strict=False)\n    "
    refuse = "raise ValueError(left)\n"
    stub, right = (source(book, "stated") for book in (lesson(2), solution(2)))
    assert "has a prefix: it said nothing" in say(stub)
    assert "stated: it was refused (RuntimeError)" in say(f"{head}model.load_state_dict(weights)\n")
    assert "in another order: it was refused" in say(
        f"{found}if left != (list(missing), list(unexpected)): {refuse}"
    )
    allowed = "<= set(missing) or not set(left.unexpected_keys) <= set(unexpected)"
    assert "stated as missing: it said nothing" in say(
        f"{found}if not set(left.missing_keys) {allowed}: {refuse}"
    )
    counted = "!= len(missing) or len(left.unexpected_keys) != len(unexpected)"
    assert "without the body, and the head stated: it said nothing" in say(
        f"{found}if len(left.missing_keys) {counted}: {refuse}"
    )
    once = "!= set(missing) or left.unexpected_keys and not unexpected"
    assert "another one stated: it said nothing" in say(
        f"{found}if set(left.missing_keys) {once}: {refuse}"
    )
    assert "was not loaded" in say(f"{head}pass\n")
    assert say(right).startswith("Yes")
    first = (
        f"{head}own, theirs = set(model.state_dict()), set(weights)\n    "
        "assert own - theirs == {*missing} and theirs - own == {*unexpected}\n    "
        "model.load_state_dict(weights, False)\n"
    )
    assert say(first).startswith("Yes")


IMPORTS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
"""
OTHERS = """

def with_head(model, optimizer, scheduler, path):
    model.load_state_dict(torch.load("runs/digits.pt")["model"])
    return DistributedDataParallel(model)


def on_rank0(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    if dist.get_rank() == 0:
        weights = torch.load(path, map_location="cpu")["model"]
        model.load_state_dict({n[9:]: t for n, t in weights.items()}, strict=False)
    return ddp


def into_a_child(model, optimizer, scheduler, path):
    both = torch.nn.ModuleDict({"backbone": model})
    both.load_state_dict(torch.load(path, map_location="cpu")["model"], strict=False)
    return DistributedDataParallel(model)


def strictly(model, optimizer, scheduler, path):
    model.load_state_dict(torch.load(path)["model"])
    return DistributedDataParallel(model)


def without(part, model, path):
    weights = torch.load(path, map_location="cpu")["model"]
    kept = {n[9:]: t for n, t in weights.items() if part not in n}
    model.load_state_dict(kept, strict=False)
    return DistributedDataParallel(model)


def without_norm2(model, optimizer, scheduler, path):
    return without("norm2", model, path)


def without_statistics(model, optimizer, scheduler, path):
    return without("running", model, path)


def unwrapped(model, optimizer, scheduler, path):
    return None
"""
TOLD = """
from {module} import {name}
from loadwrap.lessons.lesson_02 import tell_loaded


def told(*objects):
    return tell_loaded({name}(*objects), "runs/backbone.pt")
"""


def test_the_backbone_is_judged_by_its_losses(capsys, beside_the_lessons: Path) -> None:
    saved = ("--momentum", 0, "--steps", 100, "--save", "runs/digits.pt")
    torchrun(TRAIN, *saved, nproc_per_node=2, live=False).wait()
    checkpoint = torch.load("runs/digits.pt")
    layers = {n: t for n, t in checkpoint["model"].items() if not n.startswith("head.")}
    pretrained = {"step": 0, "model": {f"backbone.{n}": t for n, t in layers.items()}}
    torch.save(pretrained, "runs/backbone.pt")
    Path("stub.py").write_text(IMPORTS + source(lesson(2), "backbone"))
    stated = source(solution(2), "stated")
    Path("mended.py").write_text(f"{IMPORTS}\n{stated}\n\n{source(solution(2), 'backbone')}")
    Path("other.py").write_text(IMPORTS + OTHERS)

    def say(
        order: str, rate: float = 0.02, steps: int = 30, ranks: int = 2, told: bool = True
    ) -> str:
        module, _, name = order.partition(".py:")
        path = Path(f"told_{module}_{name}.py")
        path.write_text(TOLD.format(module=module, name=name) if told else IMPORTS)
        order = f"{path}:told" if told else order
        resume = ("--resume", "runs/backbone.pt", "--order", order, "--steps", steps)
        rest = ("--momentum", 0, "--lr", rate, "--seed", 1, "--distance-every", 5)
        run = torchrun(TRAIN, *resume, *rest, nproc_per_node=ranks, live=False)
        return verdict(capsys, check_backbone, run)

    assert "random layers" in say("stub.py:from_backbone")
    assert "leave the learning rate" in say("stub.py:from_backbone", rate=0.1)
    assert "head has been loaded" in say("other.py:with_head")
    assert "rank 1 did not get" in say("other.py:on_rank0")
    assert "another length" in say("mended.py:from_backbone", steps=5)
    assert "one rank alone" in say("mended.py:from_backbone", ranks=1, steps=2)
    partial = say("other.py:without_norm2")
    assert "rank 0 has 7 of the backbone's 12 tensors" in partial and "norm2.weight is" in partial
    assert "norm1.running_mean is not among" in say("other.py:without_statistics")
    assert "leave tell_loaded" in say("mended.py:from_backbone", told=False)
    strict = say("other.py:strictly")
    assert "job failed, and rank" in strict and 'unexpected: "backbone.conv1.weight"' in strict
    assert "--order returned NoneType" in say("other.py:unwrapped")
    assert "has no function 'nothing'" in say("other.py:nothing", told=False)
    assert say("mended.py:from_backbone").startswith("Yes")
    assert say("other.py:into_a_child").startswith("Yes")


def test_the_diagnosis_names_each_run(capsys) -> None:
    def say(**answers: object) -> str:
        return verdict(capsys, check_diagnosis, {**TRUTH, **answers})

    assert set(TRUTH.values()) < set(FAULTS)
    assert "run A has no name" in verdict(capsys, check_diagnosis, {})
    assert "run D has no name" in say(D=None)
    assert "is not one of" in say(B="broken")
    for name, truth in TRUTH.items():
        for fault in FAULTS:
            assert say(**{name: fault}).startswith("Yes") == (fault == truth)


def test_the_unlabelled_runs_have_the_faults_that_they_are_said_to_have() -> None:
    saved = ("--momentum", 0, "--steps", 150, "--save", "runs/digits.pt")
    torchrun(TRAIN, *saved, nproc_per_node=2, live=False).wait()
    runs = unlabelled_runs("runs/digits.pt")
    losses, shares = (
        {n: [run.curve(metric)[rank][1][0] for rank in run.ranks] for n, run in runs.items()}
        for metric in ("loss", "accuracy")
    )
    assert min(losses["A"]) > 2.8 > 2.45 > max(losses["D"]) > min(losses["D"]) > 2.15
    assert losses["B"][0] < 0.5 < 2.1 < losses["B"][1]
    assert max(losses["C"]) < 0.5 and max(shares["C"]) < shares["B"][0] - 0.05
    assert all(share[0] > share[-1] for _, share in runs["C"].curve("accuracy").values())


def test_the_line_up_is_a_figure_that_says_what_it_shows(tmp_path: Path) -> None:
    firsts = {"right": {0: 0.03, 1: 0.05}, "wrong": {0: 0.03, 1: 2.3}}
    picture = plot_lineup(firsts, 1.2)
    assert repr(picture) == "<figure of first loss by rank: right, wrong>"
    assert picture.png() != plot_lineup({**firsts, "wrong": firsts["right"]}, 1.2).png()
    assert picture.png() != plot_lineup(firsts).png()
    assert plot_lineup({"alone": {3: 0.5}}).save(tmp_path / "one.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="at least one run"):
        plot_lineup({"nobody": {}})
