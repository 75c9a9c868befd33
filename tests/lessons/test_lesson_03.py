"""Lesson 03: its claims fail without their faults, its checks judge, what ranks tell is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from lesson_cells import changed, run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap import torchrun
from loadwrap.checkpoints import fingerprint
from loadwrap.lessons.guesses import predicted
from loadwrap.lessons.lesson_03 import check_groups, check_sent, check_tune
from loadwrap.lessons.one_rank import OneRank
from loadwrap.lessons.sending import networks
from loadwrap.lessons.telling import tell, tell_forwards, told, versions

pytestmark = pytest.mark.usefixtures("beside_the_lessons")


def test_every_claim_fails_without_its_fault() -> None:
    silent = ("DistributedDataParallel(model)", "DistributedDataParallel(model, init_sync=False)")
    without = {
        "look": silent,
        "orders": ("    if dist.get_rank() == 0:\n        load", "    if True:\n        load"),
        "watched": silent,
    }
    failed = run_until(lesson(3), "drift-numbers", without)
    assert failed == ["look-counted", "held", "sent", "gradients", "drift-numbers"]
    assert set(lesson(3).metadata["lesson"]["claims"].values()) <= set(failed)


def test_the_names_of_the_switches_are_those_of_this_torch() -> None:
    words = " ".join((DistributedDataParallel.__doc__ or "").split())
    assert ".. deprecated:: 2.13 Use ``forward_sync_buffers`` instead" in words
    assert "``forward_sync_buffers`` does not affect init sync" in words
    assert "``broadcast_buffers=False`` excludes buffers from this init sync" in words


def test_groups_are_judged_by_what_they_hold(capsys) -> None:
    prints = {"parameters": {"before": {0: (1, 2), 1: (3, 4)}, "after": {0: (1, 2), 1: (1, 2)}}}
    long = {rank: tuple(10**19 + 8 * rank + n for n in range(8)) for rank in range(4)}
    real = {"parameters": {"before": long, "after": dict.fromkeys(long, long[0])}}

    def say(groups) -> str:
        return verdict(capsys, check_groups, groups, prints)

    def of(cell: str):
        names: dict[str, object] = {}
        exec(cell, names)
        return names["groups"]

    assert "but there is 1 different model." in say(of(source(lesson(3), "groups")))
    assert "not groups of ranks" in say(lambda prints: len(set(prints.values())))
    assert "raised KeyError" in say(
        lambda prints: (
            [[r for r in prints if prints[r] == prints[q]] for q in (0, 1)][:1]
            if prints[0] == prints[1]
            else [[r for r in prints if prints[r] == prints[q]] for q in (0, 1)]
        )
    )
    assert "2 different models" in say(lambda prints: [sorted(prints)])
    for wrong in (dict.items, dict.values, lambda prints: {v: [r] for r, v in prints.items()}):
        said = verdict(capsys, check_groups, wrong, real)
        assert "not groups of ranks" in said and "1000…, " in said and len(said) < 250
    assert say(of(source(solution(3), "groups"))).startswith("Yes")
    by_value = lambda p: {v: {r for r in p if p[r] == v} for v in p.values()}.values()  # noqa: E731
    assert say(by_value).startswith("Yes")


def test_what_is_tuned_is_judged_by_weights_and_replicas(capsys, beside_the_lessons) -> None:
    train, plain = "../launch/train.py", ("--momentum", 0)
    saved = (*plain, "--steps", 80, "--save", "runs/inside.pt")
    torchrun(train, *saved, nproc_per_node=2, live=False).wait()
    imports = "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n\n"
    imports += source(lesson(3), "orders").split("\n\n\n")[0] + "\n\n\n"
    right = source(solution(3), "tune")
    again = "return DistributedDataParallel(model)"
    answers = {
        "stub": source(lesson(3), "tune"),
        "right": right,
        "frozen": changed(right, ("    model.conv2.requires_grad_(True)\n", "")),
        "thawed": changed(right, ("requires_grad_(False).head.", "")),
        "unloaded": changed(right, ("    load(model, path)\n", "")),
        "late": changed(
            right,
            (
                "    model.requires_grad_(False)",
                "    ddp = DistributedDataParallel(model)\n    model",
            ),
            (again, "model.conv1.requires_grad_(False)\n    return ddp"),
            (".head.requires_grad_(True)", ".norm1.requires_grad_(False)"),
        ),
        "one more": changed(
            right, ("    model.conv2", "    model.norm2.bias.requires_grad_(True)\n    model.conv2")
        ),
        "renamed": changed(
            right, (again, "model.head = torch.nn.Sequential(model.head)\n    " + again)
        ),
        "rewrapped": changed(
            source(lesson(3), "tune"),
            ("return ddp", f"model = ddp.module\n    del ddp\n    {again}"),
        ),
    }
    for name, answer in answers.items():
        Path(f"{name}.py").write_text(imports + answer)

    every, keep = ("--distance-every", 1), ("--save", "runs/tuned.pt")

    def say(name: str, ranks: int = 2, more=(*every, *keep)) -> str:
        mine = ("--resume", "runs/inside.pt", "--order", f"{name}.py:fine_tune")
        options = ("--steps", 82, *more)
        run = torchrun(train, *plain, *mine, *options, nproc_per_node=ranks, live=False)
        return verdict(capsys, check_tune, run, "runs/inside.pt", "runs/tuned.pt")

    assert "but rank 1 drifts away" in say("stub")
    assert "but ranks 1, 2 drift away" in say("stub", ranks=3)
    assert "that were not used in producing loss" in say("late")
    assert "norm2 learned as well: it was to" in say("one more")
    assert "head.bias is missing in what it saved" in say("renamed")
    assert "conv2 is as it was" in say("frozen")
    assert "conv1, norm1 and norm2 learned as well: they were to" in say("thawed")
    assert "ranks 0, 1 did not resume" in say("unloaded")
    assert "one rank alone" in say("right", ranks=1)
    assert say("right").startswith("Yes")
    assert "saved nothing to runs/tuned.pt" in say("thawed", more=every)
    assert "no distance was logged after a step" in say("stub", more=keep)
    assert "no distance was logged after a step" in say(
        "stub", more=("--distance-every", 80, *keep)
    )
    assert say("rewrapped").startswith("Yes")


def test_what_is_new_after_wrapping_drifts_without_an_error(beside_the_lessons) -> None:
    """What the exercise says of a layer added then, and of load_state_dict(..., assign=True)."""
    train, plain = "../launch/train.py", ("--momentum", 0, "--batch-size", 8)
    saved = (*plain, "--steps", 1, "--save", "runs/inside.pt")
    torchrun(train, *saved, nproc_per_node=2, live=False).wait()
    head = (
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n\n\n"
        "def order(model, optimizer, scheduler, path):\n"
        "    state = torch.load(path, map_location='cpu')['model']\n"
        "    model.load_state_dict(state)\n"
        "    ddp = DistributedDataParallel(model)\n"
    )
    ways = {
        "added": "    torch.manual_seed(0)\n    model.head.append(torch.nn.Linear(10, 10))\n",
        "assigned": "    model.load_state_dict(state, assign=True)\n",
        "control": "",
    }
    for name, way in ways.items():
        end = "    optimizer.param_groups[0]['params'] = [*model.parameters()]\n    return ddp\n"
        text = changed(
            head, ("    ddp =", "    model.head = torch.nn.Sequential(model.head)\n    ddp =")
        )
        Path(f"{name}.py").write_text((text if name == "added" else head) + way + end)
        mine = ("--resume", "runs/inside.pt", "--order", f"{name}.py:order", "--steps", 4)
        run = torchrun(
            train, *plain, *mine, "--distance-every", 1, nproc_per_node=2, live=False
        ).wait()
        far = run.curve("distance")[1][1]
        assert far[0] == 0 and far[-1] > 0 or name == "control" and not far.any(), name


def test_a_prediction_of_0_is_one() -> None:
    assert predicted(0) == "you predicted 0" and predicted(None).endswith("nothing yet")


def test_bytes_are_those_that_the_profiler_sees(capsys) -> None:
    def say(count) -> str:
        return verdict(capsys, check_sent, count)

    names: dict[str, object] = {}
    exec(source(lesson(3), "bytes"), names)
    assert "batch norm, which has buffers it gives 176; the profiler saw 216" in say(
        names["sent_bytes"]
    )
    assert "share a weight" in say(lambda m: sum(t.nbytes for t in m.state_dict().values()))
    assert "raised AttributeError" in say(lambda m: m.bytes)
    exec(source(solution(3), "bytes"), names)
    assert say(names["sent_bytes"]).startswith("Yes")

    def one_by_one(model: nn.Module) -> int:
        pairs = [*model.named_parameters(), *model.named_buffers()]
        return sum(t.numel() * t.element_size() for name, t in pairs)

    assert say(one_by_one).startswith("Yes")
    assert len(networks()) == 6


def test_what_is_told_is_read(capsys) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(nn.init.ones_(model[0].weight.new_empty(4, 2))).sum().backward()
    optimizer.step()
    capsys.readouterr()
    tell("built", model, optimizer)
    tell_forwards(model, count=1)
    model.eval()(model[0].weight)
    model.train()(model[0].weight)
    model(model[0].weight)
    print("step 3: loss 0.2")
    text = capsys.readouterr().out
    assert text.count("forward-1") == 2 and "forward-2" not in text
    found = told(SimpleNamespace(ranks=(0, 4), stdout=lambda rank: text))
    assert list(found) == ["parameters", "buffers", "optimizer"]
    assert found["parameters"]["built"][4][0] == fingerprint(model[0].weight)
    assert len(found["optimizer"]["built"][0]) == 4 and len(found["buffers"]["built"][0]) == 3
    assert versions(found["parameters"]) == {"built": 1, "forward-1": 1}
    with pytest.raises(ValueError, match="in one word"):
        tell("first forward", model)


def test_one_rank_of_a_run_is_seen() -> None:
    curves = {0: ([1], [0.0]), 1: ([1], [6.5])}
    run = SimpleNamespace(ranks=(0, 1), curve=lambda metric: curves)
    seen = OneRank(run, 1)
    assert seen.curve("distance") == {1: curves[1]} and seen.mean("distance") == curves[1]
    with pytest.raises(ValueError, match="no rank 2, only 0, 1"):
        OneRank(run, 2)
