"""Each claim's cell asserts it, and the assertion fails once the fault is taken away.

That they hold with the fault is what nbval shows.
"""

from __future__ import annotations

import pytest

from lesson_cells import run_until
from lesson_files import LESSONS, code_cells, lesson, read, tags


def test_every_claim_names_a_cell_that_asserts_it() -> None:
    assert {"A1", "A1b", "A5"} <= set(lesson(1).metadata["lesson"]["claims"])
    for path in LESSONS:
        cells = {cell.id: cell for cell in code_cells(read(path))}
        for claim, cell in read(path).metadata["lesson"]["claims"].items():
            assert "assert " in cells[cell].source, claim
            assert "nbval-ignore-output" not in tags(cells[cell]), claim


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
