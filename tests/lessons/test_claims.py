"""Each claim's cell asserts it, and the assertion fails once the fault is taken away.

That they hold with the fault is what nbval shows. Here the cells run as they stand in the notebook
but for one, outside a kernel; a cell that raises an AssertionError is noted, and the next one runs.
"""

from __future__ import annotations

import pytest

from lesson_files import LESSONS, code_cells, lesson, read, tags
from loadwrap.magic import run_cell


def run_until(notebook, last: str, change: dict[str, tuple[str, str]]) -> list[str]:
    """Run the cells up to `last`, some of them changed, and return the ids of those that fail."""
    names: dict[str, object] = {"__name__": "__main__"}
    failed = []
    for cell in code_cells(notebook):
        source = cell.source
        if cell.id in change:
            old, new = change[cell.id]
            assert old in source, f"{cell.id} has no {old!r} to change"
            source = source.replace(old, new)
        try:
            if source.startswith("%%torchrun"):
                line, _, body = source.removeprefix("%%torchrun").partition("\n")
                run_cell(line, body, names)
            else:
                exec(compile(source, cell.id, "exec"), names)
        except AssertionError:
            failed.append(cell.id)
        if cell.id == last:
            return failed
    raise AssertionError(f"no cell {last}")


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
