"""Lesson 04: its claim fails without the fault, and its checks know wrong answers from right."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from lesson_cells import changed, run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap import Run, as_file, torchrun
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


def quiet(*options: object, silent_for: float = 120) -> Run:
    how = {"nproc_per_node": 2, "live": False, "stall_timeout": silent_for}
    return torchrun(TRAIN, *ADAMW, *options, **how)


def own_file(name: str, text: str) -> None:
    Path(f"{name}.py").write_text(IMPORTS + text)


GUARDS = {
    "late": "def guard(ddp, optimizer):\n"
    "    model = ddp.module\n"
    "    optimizer.register_step_post_hook(lambda own, *_: assert_in_sync(model, own))\n",
    "stern": "def guard(ddp, optimizer):\n"
    "    raise RuntimeError('no resume here\\n  and why:\\n\\nbuffers: by design')\n",
    "counted": "def guard(ddp, optimizer):\n"
    "    mine = torch.tensor(len(optimizer.state))\n"
    "    rank0 = mine.clone()\n"
    "    dist.broadcast(rank0, src=0)\n"
    "    assert mine == rank0, 'some state is missing here'\n",
}


WITHOUT_ALL = """def guard(ddp, optimizer):
    if dist.get_rank() == 0:
        assert_in_sync(ddp, optimizer)
"""
BY_NAME = """def guard(ddp, optimizer):
    assert ORDER != "load_on_rank0_then_wrap"
"""


def test_the_guard_stops_the_cure_and_nothing_else(capsys, saved) -> None:
    guards = {**GUARDS, "by name": BY_NAME}
    for name, book in (("stub", lesson(4)), ("solution", solution(4))):
        guards[name] = source(book, "guard") + "\n"

    def say(name: str) -> str:
        return guarded(capsys, saved, guards[name])

    assert "got past it" in say("stub")
    assert "got past it" in say("by name")
    stern = say("stern")
    assert "the right order does not train" in stern
    assert "no resume here" in stern and "by design" not in stern
    assert "only after a step" in say("late")
    assert say("solution").startswith("Yes: the cure is stopped before")
    assert say("counted").startswith("Yes")


def test_a_guard_on_one_rank_alone_does_not_hang_the_check(capsys, saved) -> None:
    said = guarded(capsys, saved, WITHOUT_ALL, silent_for=4)
    assert "the right order does not train: the ranks stand still: rank 0 in assert_in_sync" in said
    assert "rank 1 in " in said and "Every rank makes a collective call, or none" in said
    lost = changed(WITHOUT_ALL, ("dist.get_rank() == 0", "optimizer.state"))
    said = guarded(capsys, saved, lost, silent_for=4)  # rank 1 has none, under the cure
    assert said.startswith("Not yet: the ranks stand still: rank 0 in assert_in_sync")


def guarded(capsys, saved, guard: str, silent_for: float = 120) -> str:
    """Return what the lesson's own cell says of a guard, and of nothing but the guard."""
    names: dict[str, object] = {"__name__": "__main__", "as_file": as_file}
    names |= {"ORDER": "load_everywhere_then_wrap", "short": (*saved, "--steps", 14)}
    names["quietly"] = lambda *options: quiet(*options, silent_for=silent_for)
    names["check_guard"] = lambda *runs: told.append(verdict(capsys, check_guard, *runs))
    told: list[str] = []
    for cell in (IMPORTS, guard, source(lesson(4), "guard-check")):
        name = f"guard cell {hash(cell)}"  # as IPython does it: as_file() looks a source up
        linecache.cache[name] = len(cell), None, cell.splitlines(True), name
        exec(compile(cell, name, "exec", dont_inherit=True), names)
    return told[0]


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

TENSOR_BY_TENSOR = """
    for state in optimizer.state.values():
        for value in state.values():
            dist.broadcast(value, src=0)
    return DistributedDataParallel(model)
"""


def test_sending_what_the_others_lack_does_not_hang_the_check(capsys, saved) -> None:
    """Rank 1's optimizer has no tensor yet, so rank 0's broadcasts meet the wrap."""
    end = "\n    return DistributedDataParallel(model)\n"
    loop = changed(source(lesson(4), "send") + "\n", (end, TENSOR_BY_TENSOR))
    own_file("loop_send", loop + ONE_READER.format(order="rank0_sends"))
    run = quiet(*saved, "--steps", 14, "--order", "loop_send.py:one_reader", silent_for=4)
    said = verdict(capsys, check_resume, run, run)
    assert said.startswith(
        ("Not yet: the ranks stand still: rank 0 in ", "Not yet: the job failed")
    )


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
