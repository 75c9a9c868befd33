"""Each claim's cell asserts it, and the assertion fails once the fault is taken away.

That they hold with the fault is what nbval shows.
"""

from __future__ import annotations

import re

import pytest

from lesson_cells import run_until
from lesson_files import LESSONS, code_cells, lesson, read, tags

# What the course teaches, and the lesson and the cell of it that asserts each.
CLAIMS = {
    "A1": (1, "rank0-first"),  # the loss after the resume is far higher; not rank 0's
    "A1b": (1, "height-measured"),  # the height can be predicted
    "A2": (2, "modes-measured"),  # the modes of training and evaluation move it little
    "A3": (2, "alibi-numbers"),  # strict loading proves something on the ranks that loaded
    "A4": (3, "look-counted"),  # the constructor sends parameters and buffers, once
    "A5": (3, "drift-numbers"),  # replicas that part do not meet again
    "A6": (3, "gradients"),  # the averaged gradient is wrong for every replica
    "A7": (4, "distance"),  # load on rank 0, then wrap: right but for the optimizer
    "A8": (5, "attribute"),  # where module. comes from
    "A9": (8, "asked"),  # loading the optimizer brings the old learning rate back
    "B1": (6, "parts-lost"),  # a checkpoint is more than its weights
    "B2": (5, "table"),  # saved from the wrapper or from the model, loaded into either
    "B3": (5, "replace"),  # the cures of the prefix, and what they destroy
    "B4": (5, "cures-numbers"),  # saved without the wrapper, a plain load works
    "B5": (7, "coverage"),  # DDP does not share out the data; the sampler does
    "B6": (7, "drift-numbers"),  # a forward past the wrapper trains each rank alone
    "F06": (8, "ladder-mended"),  # the optimizer's state
    "F07": (8, "rates"),  # the schedule
    "F08": (8, "rates"),  # the scaler of mixed precision
    "F09": (8, "silent"),  # the moving average
    "F10": (8, "silent"),  # the position in the data
    "F13": (8, "silent"),  # buffers
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_claim_has_a_cell_that_asserts_it(claim: str) -> None:
    number, identity = CLAIMS[claim]
    notebook = lesson(number)
    assert notebook.metadata["lesson"]["claims"][claim] == identity
    (cell,) = [cell for cell in code_cells(notebook) if cell.id == identity]
    assert re.search(r"^\s*assert ", cell.source, re.M)
    assert "nbval-ignore-output" not in tags(cell)
    assert cell.execution_count, "it has not run"


def test_no_lesson_claims_what_is_not_listed() -> None:
    for path in LESSONS:
        for claim in read(path).metadata["lesson"]["claims"]:
            assert claim in CLAIMS


@pytest.mark.usefixtures("beside_the_lessons")
def test_lesson_01_fails_without_the_fault() -> None:
    notebook = lesson(1)
    claims = set(notebook.metadata["lesson"]["claims"].values())
    without = {"resume-run": ("wrap_then_load_on_rank0", "load_everywhere_then_wrap")}
    failed = run_until(notebook, "control-numbers", without)
    assert claims <= set(failed), "each claim's own cell"
    assert "control-numbers" in failed, "nothing is left to compare"
    assert "train-numbers" not in failed


@pytest.mark.usefixtures("beside_the_lessons")
def test_lesson_00_fails_without_ddp() -> None:
    notebook = lesson(0)
    alone = ("torch.nn.parallel.DistributedDataParallel(model)", "model")
    assert run_until(notebook, "contract-counted", {"contract-run": alone}) == ["contract-counted"]
