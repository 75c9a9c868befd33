"""Each check says "Not yet" to three wrong answers and "Yes" to two right ones.

The answers are the stub and the solution of the notebook, and changes of them; their jobs are real.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lesson_cells import changed, run_of, source, verdict
from lesson_files import lesson, solution
from loadwrap import torchrun
from loadwrap.lessons.lesson_00 import check_contract, check_curves, check_parts
from loadwrap.lessons.lesson_01 import check_evidence, check_height, check_resume

pytestmark = pytest.mark.usefixtures("beside_the_lessons")


def test_every_rank_has_a_curve(capsys) -> None:
    stub, right = (source(book, "curves-exercise") for book in (lesson(0), solution(0)))
    nobody = changed(right, ("log(step, loss=loss)", "print(step, loss)"))
    copies = changed(right, ("random.seed(rank)", "random.seed(7)"))
    assert "ranks 1, 2, 3" in verdict(capsys, check_curves, run_of(stub))
    assert "no rank" in verdict(capsys, check_curves, run_of(nobody))
    assert "same curve" in verdict(capsys, check_curves, run_of(copies))
    everyone = changed(stub, ("rank == 0", "rank in range(4)"))
    assert verdict(capsys, check_curves, run_of(right)).startswith("Yes")
    assert verdict(capsys, check_curves, run_of(everyone)).startswith("Yes")


def test_the_first_failure_is_found_and_mended(capsys) -> None:
    stub, right = (source(book, "parts") for book in (lesson(0), solution(0)))
    nothing = changed(stub, ("files[dist.get_rank()]", "files.get(dist.get_rank())"))
    empty = changed(stub, ("files[dist.get_rank()]", "files.get(dist.get_rank(), '')"))
    assert "rank 0 did not" in verdict(capsys, check_parts, run_of(right), 0)
    unmended = verdict(capsys, check_parts, run_of(stub), 3)
    assert "rank 3 is right. Now mend the script" in unmended
    assert "rank 3 was the first: KeyError: 3." in unmended
    assert "a rank's number" in verdict(capsys, check_parts, run_of(right), "3")
    assert "rank 3 ended" in verdict(capsys, check_parts, run_of(nothing), 3)
    assert "rank 3 ended" in verdict(capsys, check_parts, run_of(empty), 3)
    shared = changed(stub, ("files[dist.get_rank()]", "files[dist.get_rank() % 3]"))
    assert verdict(capsys, check_parts, run_of(right), 3).startswith("Yes")
    assert verdict(capsys, check_parts, run_of(shared), 3).startswith("Yes")


def test_the_contract_is_mended(capsys) -> None:
    stub, right = (source(book, "rate") for book in (lesson(0), solution(0)))
    seeded = ("model = ", "torch.manual_seed(0)\n    model = ")
    still = changed(right, ("lr=0.01", "lr=0.0"))
    assert "4 different models" in verdict(capsys, check_contract, run_of(stub))
    assert "same data" in verdict(capsys, check_contract, run_of(changed(right, seeded)))
    assert "nothing was trained" in verdict(capsys, check_contract, run_of(still))
    other = changed(right, ("SGD", "Adam"))
    assert verdict(capsys, check_contract, run_of(right)).startswith("Yes")
    assert verdict(capsys, check_contract, run_of(other)).startswith("Yes")


def test_the_height_is_a_mean_over_ranks(capsys) -> None:
    from math import log
    from statistics import mean

    def formula(before, classes, ranks):
        return (before + (ranks - 1) * log(classes)) / ranks

    assert "gives 0.05" in verdict(capsys, check_height, lambda before, *_: before, True)
    assert "gives 2.30" in verdict(capsys, check_height, lambda b, c, r: log(c), True)
    assert "raised" in verdict(capsys, check_height, lambda before: before, True)
    assert "is it your" in verdict(capsys, check_height, formula, None)
    assert "7.06 is what" in verdict(capsys, check_height, formula, False)
    for choice in ("no", "yes", "False", 0, 1, []):
        assert "True or False" in verdict(capsys, check_height, formula, choice)
    assert verdict(capsys, check_height, formula, True).startswith("Yes")
    listed = lambda b, c, r: mean([b] + [log(c)] * (r - 1))  # noqa: E731
    assert verdict(capsys, check_height, listed, True).startswith("Yes")


def test_the_evidence_tells_broken_from_healthy(capsys) -> None:
    broken = [{0: 0.03, **dict.fromkeys(range(1, ranks), 2.3)} for ranks in (2, 4, 8)]
    healthy = {0: 0.03, 1: 0.05, 2: 0.08, 3: 0.04}

    def say(evidence) -> str:
        return verdict(capsys, check_evidence, evidence, broken, healthy)

    assert "nobody could tell" in say(lambda losses: losses[0])
    assert "nobody could tell" in say(lambda losses: min(losses.values()))
    assert "raised KeyError" in say(lambda losses: losses[3])
    assert "not a number" in say(lambda losses: list(losses.values()))
    for a_rank in (max, lambda losses: max(losses, key=losses.get)):
        assert "a rank's number" in say(a_rank)
    assert say(lambda losses: sum(loss > 1 for loss in losses.values())).startswith("Yes")
    assert say(lambda losses: sum(losses[r] for r in losses if r) / len(losses)).startswith("Yes")
    assert "≈ 0.05 in a healthy" in say(lambda losses: sum(losses.values()) / len(losses))
    assert say(lambda losses: losses[1]).startswith("Yes")
    share = lambda losses: sum(loss > 1 for loss in losses.values()) / len(losses)  # noqa: E731
    assert say(share).startswith("Yes")
    assert say(lambda losses: max(losses.values()) - min(losses.values())).startswith("Yes")


ORDERS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def nothing(model, optimizer, scheduler, path):
    return DistributedDataParallel(model)


def noisy(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    ddp.module.load_state_dict(torch.load(path)["model"])
    ddp.module.head.bias.data += 1e-4 * dist.get_rank()
    return ddp


def forgets(model, path, *names):
    weights = torch.load(path)["model"]
    kept = {n: t for n, t in weights.items() if not any(name in n for name in names)}
    model.load_state_dict(kept, strict=False)
    return DistributedDataParallel(model)


def no_norm1(model, optimizer, scheduler, path):
    return forgets(model, path, "norm1")


def no_norm2(model, optimizer, scheduler, path):
    return forgets(model, path, "norm2")


def no_statistics(model, optimizer, scheduler, path):
    return forgets(model, path, "running")


def rank0_tells(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    if dist.get_rank() == 0:
        model.load_state_dict(torch.load(path)["model"])
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    return ddp
"""


def test_the_resume_is_judged_by_its_replicas(capsys, beside_the_lessons: Path) -> None:
    train, plain = "../launch/train.py", ("--momentum", 0)
    saved = (*plain, "--steps", 120, "--save", "runs/digits.pt")
    first = torchrun(train, *saved, nproc_per_node=2, live=False).wait()
    accuracy = first.curve("accuracy")[0][1][-1]
    for name, book in (("stub", lesson(1)), ("mended", solution(1))):
        Path(f"{name}.py").write_text(source(book, "mend"))
    Path("mine.py").write_text(ORDERS)

    def say(order: str) -> str:
        mine = ("--resume", "runs/digits.pt", "--order", order, "--distance-every", 1)
        run = torchrun(train, *plain, *mine, "--steps", 122, nproc_per_node=2, live=False)
        return verdict(capsys, check_resume, run, 0.1, accuracy)

    assert "rank 1 of 2 did not resume" in say("stub.py:resume_tidily")
    assert "ranks 0, 1 of 2 did not resume" in say("mine.py:nothing")
    assert "rank 1 drift" in say("mine.py:noisy")
    for part in ("norm1", "norm2", "statistics"):
        assert "not all of it was loaded" in say(f"mine.py:no_{part}")
    assert "has no function 'no_such_order'." in say("mine.py:no_such_order")
    assert "right for the weights" in say("mended.py:resume_tidily")
    assert say("mine.py:rank0_tells").startswith("Yes")
