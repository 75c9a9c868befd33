"""Cells of the lessons, run outside a kernel: as they stand, or with something changed."""

from __future__ import annotations

import linecache

import pytest

from lesson_files import code_cells
from loadwrap import Run
from loadwrap.magic import run_cell


def run_until(notebook, last: str, change: dict[str, tuple[str, str]]) -> list[str]:
    """Run the cells up to `last`, some of them changed, and return the ids of those that fail.

    A cell that raises an AssertionError has failed, and the next one runs.
    """
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
                # As IPython does it: as_file() looks up the source of a cell's function.
                linecache.cache[cell.id] = len(source), None, source.splitlines(True), cell.id
                exec(compile(source, cell.id, "exec", dont_inherit=True), names)
        except AssertionError:
            failed.append(cell.id)
        if cell.id == last:
            return failed
    raise AssertionError(f"no cell {last}")


def source(notebook, identity: str) -> str:
    return next(cell.source for cell in notebook.cells if cell.id == identity)


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, f"no {old!r} in {text!r}"
        text = text.replace(old, new)
    return text


def run_of(cell: str) -> Run:
    """Run a %%torchrun cell in the background."""
    line, _, body = cell.removeprefix("%%torchrun").partition("\n")
    names: dict[str, Run] = {}
    run_cell(f"{line.replace('--quiet', '')} --background --as run", body, names)
    return names["run"]


def verdict(capsys: pytest.CaptureFixture[str], check, *arguments) -> str:
    capsys.readouterr()
    check(*arguments)
    said = capsys.readouterr().out
    assert said.startswith(("Yes: ", "Not yet: ")) and said.count("\n") == 1, said
    return said
