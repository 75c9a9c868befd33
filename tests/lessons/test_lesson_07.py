"""Lesson 07: each cell fails without its fault, and each check tells right answers from wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lesson_cells import changed, run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap import Run, torchrun
from loadwrap.lessons.in_step import MEASURED, outcome, versions
from loadwrap.lessons.lesson_07 import check_calls, check_order, check_thaw

pytestmark = pytest.mark.usefixtures("beside_the_lessons")

EACH = "../launch/on_every_rank.py"
PAST, THROUGH = "ddp.module.loss(images, labels)", "cross_entropy(ddp(images), labels)"
SHUFFLED = ("RandomSampler(range(IMAGES), generator=own)", "DistributedSampler(range(IMAGES))")


def start(name: str, *cells: str, function: str, ranks: int = 2, words=()) -> Run:
    """Run the function of some cells on every rank, with the imports and the net of the lesson."""
    notebook = lesson(7)
    head = source(notebook, "imports").partition("\nEACH")[0]
    Path(name).write_text("\n\n\n".join((head, source(notebook, "net"), *cells)))
    place = f"{name}:{function}"
    return torchrun(EACH, MEASURED, place, *words, nproc_per_node=ranks, live=False)


def test_each_claim_fails_without_its_fault() -> None:
    notebook = lesson(7)
    claims = notebook.metadata["lesson"]["claims"]
    mended = {
        "draws": SHUFFLED,
        "drift": (PAST, THROUGH),
        "watched": (PAST, THROUGH),
        "buffers-run": ('if way == "through" else', 'if way != "nothing" else'),
        "net": ("ddp.loss(*", "ddp.module.loss(*"),
    }
    failed = run_until(notebook, "buffers-numbers", mended)
    assert set(claims.values()) <= set(failed)
    assert failed == ["coverage", "gone", "drift-numbers", "caught", "buffers-numbers"]


def test_the_first_images_tell_of_a_set_epoch() -> None:
    both = ('samplers["told"].set_epoch(epoch)', 'samplers["forgotten"].set_epoch(epoch)')
    assert run_until(lesson(7), "first-images", {"draws": both}) == ["first-images"]


def test_a_trainer_goes_through_ddp(capsys) -> None:
    stub, right = (source(book, "calls") for book in (lesson(7), solution(7)))

    def say(name: str, cell: str) -> str:
        return verdict(capsys, check_calls, start(f"{name}.py", cell, function="tidy"))

    still = changed(right, ("lr=0.1", "lr=0.0"))
    images = "Trainer(device).fit(*[part[:99].to(device) for part in images_of(device)])"
    one = changed(right, ("Trainer(device).fit(*images_of(device))", images))
    same = changed(
        right, ("*images_of(device)", "*[part[:90] for part in images_of(device, train=False)]")
    )
    assert "apart" in say("stub", stub)
    assert "learn nothing" in say("still", still)
    assert "same loss" in say("same", same)
    assert "job failed" in say("gone", changed(stub, ("self.model.loss", "self.ddp.loss")))
    assert say("right", right).startswith("Yes")
    assert say("fewer", one).startswith("Yes")
    inside = "class Inside(Net):\n    forward_all = Net.forward\n\n"
    inside += "    def forward(self, images, labels):\n"
    inside += "        return cross_entropy(self.forward_all(images), labels)\n"
    within = changed(stub, ("self.model.loss(images", "self.ddp(images"), ("(Net()", "(Inside()"))
    assert say("inside", f"{inside}\n\n{within}").startswith("Yes")


STEP = "            self.optimizer.step()\n"
FOR_EACH = "            for p in self.ddp.parameters():\n                "


def test_equal_replicas_are_not_enough(capsys) -> None:
    stub = source(lesson(7), "calls")

    def say(name: str, *changes: tuple[str, str], ranks: int = 2) -> str:
        run = start(f"{name}.py", changed(stub, *changes), function="tidy", ranks=ranks)
        return verdict(capsys, check_calls, run)

    def after(line: str) -> tuple[str, str]:
        return STEP, f"{STEP}{FOR_EACH}{line}\n"

    def before(line: str) -> tuple[str, str]:
        return STEP, f"{FOR_EACH}{line}\n{STEP}"

    not_averaged = "their gradients were not averaged"
    overwritten = say("overwritten", after("dist.broadcast(p.data, 0)"), ranks=4)
    assert f"because rank 0's weights overwrite the others; {not_averaged}" in overwritten
    made = say("made", after("dist.all_reduce(p.data); p.data /= 2"))
    assert f"made equal after each step; {not_averaged}" in made
    taken = say("taken", before("dist.broadcast(p.grad, 1)"))
    assert f"rank 1's gradient overwrites the others; {not_averaged}" in taken
    assert "not the mean" in say("summed", before("dist.all_reduce(p.grad)"))
    assert "weights differ at step 1" in say("told", ("spread=spread(self.ddp)", "spread=0.0"))
    by_hand = say("by_hand", before("dist.all_reduce(p.grad); p.grad /= 4"), ranks=4)
    assert by_hand.startswith("Yes")


def test_reading_goes_on_where_it_stopped(capsys) -> None:
    stub, right = (source(book, "reading") for book in (lesson(7), solution(7)))
    draws = source(lesson(7), "draws")
    whole = start("whole.py", draws, function="draws", ranks=4, words=(0,))

    def say(name: str, cell: str) -> str:
        images = draws.partition("\n")[0]
        run = start(f"{name}.py", images, cell, function="reading", ranks=4, words=(2, 5))
        return verdict(capsys, check_order, run, whole)

    assert "epoch 0 began with it" in say("stub", stub)
    told = changed(
        stub, ("    while epoch < 4:\n", "    while epoch < 4:\n        sampler.set_epoch(epoch)\n")
    )
    assert "epoch 2 began with it" in say("told", told)
    always = changed(right, ("        batch = 0\n", ""))
    assert "right for 180 images" in say("always", always)
    longer = changed(right, ("epoch < 4", "epoch < 5"))
    assert "instead of 540" in say("longer", longer)
    assert say("right", right).startswith("Yes")
    left_out = changed(
        told,
        ("for numbers in loader:", "for at, numbers in enumerate(loader):"),
        ("numbers.tolist():", "numbers.tolist() if epoch > 2 or at >= batch else ():"),
    )
    assert say("left_out", left_out).startswith("Yes")


def test_the_line_names_the_thawed_layer(capsys) -> None:
    stub, right = (source(book, "thaw") for book in (lesson(7), solution(7)))
    wrap = "ddp = DistributedDataParallel(net)"

    def say(name: str, cell: str, culprit: str | None) -> str:
        return verdict(capsys, check_thaw, start(f"{name}.py", cell, function="thaw"), culprit)

    speaking = changed(right, (f"            {wrap}\n", ""))
    assert "nobody has named a tensor" in say("stub", stub, None)
    assert "which tensor does it name" in say("speaking", speaking, None)
    assert "the line speaks" in say("mine", speaking, "conv.weight")
    assert "not the tensor" in say("other", right, "head.weight")
    assert "the error names conv.weight; conv.bias goes" in say("bias", right, "conv.bias")
    never = changed(right, ("net.conv.requires_grad_(True)", "pass"))
    assert "never trained" in say("never", never, "conv.weight")
    assert say("right", right, "conv.weight").startswith("Yes")
    lines = "        assert_in_sync(ddp, optimizer)\n"
    early = changed(right, (lines, ""), ("    for step", f"{lines[4:]}    for step"))
    assert "your line speaks too early" in say("early", early, "conv.weight")
    assert "your line is gone" in say("no_line", changed(right, (lines, "")), "conv.weight")
    step = "        optimizer.step()\n"
    overwrite = "        for p in net.parameters():\n            dist.broadcast(p.data, 0)\n"
    overwritten = changed(speaking, (step, f"{step}{overwrite}"))
    assert "rank 0's weights overwrite" in say("overwritten", overwritten, "conv.weight")
    twice = say(
        "twice", changed(right, (f"{' ' * 12}{wrap}", f"{' ' * 12}{wrap[:-4]}ddp)")), "conv.weight"
    )
    assert twice.startswith("Yes") and "module.module." in twice
    by_rate = changed(
        right,
        (f"            {wrap}\n", ""),
        ("    net.conv.requires_grad_(False)\n", ""),
        ("net.parameters(), lr=0.1", "[{'params': [*net.head.parameters()]}], lr=0.1"),
        ("net.conv.requires_grad_(True)", "optimizer.add_param_group({'params': net.conv.weight})"),
    )
    assert say("by_rate", by_rate, "module.conv.weight").startswith("Yes")


def test_an_end_is_told_without_a_measurement() -> None:
    Path("ends.py").write_text(
        "import torch\nimport torch.distributed as dist\nfrom loadwrap import log\n"
        "from loadwrap.checkpoints import assert_in_sync\n\n\n"
        "def apart(device):\n"
        "    net = torch.nn.Linear(2, 2)\n"
        "    log(0, same=1, own=dist.get_rank())\n"
        "    assert_in_sync(net)\n\n\n"
        "def fine(device):\n    log(0, own=dist.get_rank())\n"
    )
    apart = torchrun(EACH, "ends.py:apart", nproc_per_node=2, live=False)
    fine = torchrun(EACH, "ends.py:fine", nproc_per_node=2, live=False)
    assert outcome(apart) == "stopped by ReplicasOutOfSync: parameter weight"
    assert outcome(fine) == "finished"
    assert versions(apart, "same") == [1] and versions(apart, "own") == [2]
