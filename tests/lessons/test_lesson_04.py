"""Lesson 04: its claim fails without the fault, and its checks know wrong answers from right."""

from __future__ import annotations

from pathlib import Path

import pytest

from lesson_cells import changed, run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap import Run, torchrun
from loadwrap.lessons.lesson_04 import check_guard, check_resume

pytestmark = pytest.mark.usefixtures("beside_the_lessons")

TRAIN = "../launch/train.py"
ADAMW = ("--optimizer", "adamw", "--lr", 0.01, "--dropout", 0)
IMPORTS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from loadwrap.checkpoints import assert_in_sync
"""


def test_a7_fails_without_the_fault() -> None:
    """The cure becomes the right order: nothing drifts, and nothing leaves the whole run."""
    everywhere = ('"--order", order', '"--order", right')
    one = {"saves": ("recipes.items()", "[('adamw', adamw)]")}  # the others are for later cells
    failed = run_until(lesson(4), "distance", {**one, "orders-run": everywhere})
    assert lesson(4).metadata["lesson"]["claims"] == {"A7": "distance"}
    assert failed == ["orders-first", "distance"]


@pytest.fixture
def saved(beside_the_lessons: Path) -> tuple[object, ...]:
    """A checkpoint of AdamW at step 12, and the arguments that resume from it."""
    quiet("--steps", 12, "--save", "runs/adamw.pt").wait()
    return ("--resume", "runs/adamw.pt", "--seed", 1, "--distance-every", 1)


def quiet(*options: object) -> Run:
    return torchrun(TRAIN, *ADAMW, *options, nproc_per_node=2, live=False)


def own_file(name: str, text: str) -> None:
    Path(f"{name}.py").write_text(IMPORTS + text)


GUARDED = """

def guarded(model, optimizer, scheduler, path):
    from orders import {order}

    ddp = {order}(model, optimizer, scheduler, path)
    guard(ddp, optimizer)
    return ddp
"""
GUARDS = {
    "late": "def guard(ddp, optimizer):\n"
    "    model = ddp.module\n"
    "    optimizer.register_step_post_hook(lambda own, *_: assert_in_sync(model, own))\n",
    "nothing": "def guard(ddp, optimizer):\n    pass\n",
    "stern": "def guard(ddp, optimizer):\n    raise RuntimeError('no resume here')\n",
    "counted": "def guard(ddp, optimizer):\n"
    "    mine = torch.tensor(len(optimizer.state))\n"
    "    rank0 = mine.clone()\n"
    "    dist.broadcast(rank0, src=0)\n"
    "    assert mine == rank0, 'some state is missing here'\n",
}


def test_the_guard_stops_the_cure_and_nothing_else(capsys, saved) -> None:
    guards = dict(GUARDS)
    for name, book in (("stub", lesson(4)), ("solution", solution(4))):
        guards[name] = source(book, "guard").split("\n\n\n")[0] + "\n"

    def say(name: str) -> str:
        tried = []
        for order in ("load_on_rank0_then_wrap", "load_everywhere_then_wrap"):
            own_file(f"{name}_{order}", guards[name] + GUARDED.format(order=order))
            mine = ("--order", f"{name}_{order}.py:guarded", "--steps", 14)
            tried.append(quiet(*saved, *mine))
        return verdict(capsys, check_guard, *tried)

    assert "got past it" in say("stub")
    assert "got past it" in say("nothing")
    stern = say("stern")
    assert "stops the right order too" in stern and "no resume here" in stern
    assert "only after a step" in say("late")
    assert say("solution").startswith("Yes: the cure is stopped before")
    assert say("counted").startswith("Yes")


ORDERS = """
def nothing(model, optimizer, scheduler, path):
    return DistributedDataParallel(model)


def weights_everywhere(model, optimizer, scheduler, path):
    model.load_state_dict(torch.load(path)["model"])
    return DistributedDataParallel(model)


def averages_nowhere(model, optimizer, scheduler, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict({**state["optimizer"], "state": {}})
    scheduler.load_state_dict(state["scheduler"])
    return DistributedDataParallel(model)


def scheduler_forgotten(model, optimizer, scheduler, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if dist.get_rank() == 0:
        scheduler.load_state_dict(state["scheduler"])
    return DistributedDataParallel(model)


def every_part_in_a_box(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    state = torch.load(path) if dist.get_rank() == 0 else {}
    for name, part in (("model", ddp.module), ("optimizer", optimizer), ("scheduler", scheduler)):
        box = [state.get(name)]
        dist.broadcast_object_list(box, src=0)
        part.load_state_dict(box[0])
    return ddp


def read_everywhere(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    state = torch.load(path)
    for name, part in (("scheduler", scheduler), ("optimizer", optimizer), ("model", ddp.module)):
        part.load_state_dict(state[name])
    return ddp
"""
ONE_READER = """

def one_reader(model, optimizer, scheduler, path):
    if dist.get_rank() > 0:
        path = "not/on/this/machine.pt"
    return {order}(model, optimizer, scheduler, path)
"""


def test_a_resume_brings_everything_to_every_rank(capsys, saved) -> None:
    own_file("mine", ORDERS + ONE_READER.format(order="every_part_in_a_box"))
    for name, book in (("stub", lesson(4)), ("solution", solution(4))):
        own_file(f"{name}_mend", source(book, "mend"))
        send = source(book, "send")
        own_file(f"{name}_send", send + ONE_READER.format(order="rank0_sends"))
    reads = changed(source(lesson(4), "send"), ("if dist.get_rank() == 0:", "if True:"))
    own_file("reads_send", reads + ONE_READER.format(order="rank0_sends"))
    judged = (*saved, "--schedule", "cosine", "--steps", 18)
    right = quiet(*judged).wait()

    def say(order: str) -> str:
        return verdict(capsys, check_resume, quiet(*judged, "--order", order), right)

    assert "by step 13 rank 1 of 2 had left rank 0" in say("stub_mend.py:resume_tidily")
    assert "rank 1 of 2 had left rank 0" in say("stub_send.py:one_reader")
    assert "ranks 0, 1 of 2 did not resume" in say("mine.py:nothing")
    assert "saved learning rate" in say("mine.py:weights_everywhere")
    assert "what did none of them load" in say("mine.py:averages_nowhere")
    assert "had left rank 0" in say("mine.py:scheduler_forgotten")
    assert "FileNotFoundError" in say("reads_send.py:one_reader")
    assert say("solution_mend.py:resume_tidily").startswith("Yes: all 2 ranks")
    assert say("mine.py:read_everywhere").startswith("Yes")
    assert say("solution_send.py:one_reader").startswith("Yes")
    assert say("mine.py:one_reader").startswith("Yes")
