"""Every lesson keeps the contract of CONTRIBUTING.md: its form, its size, its outputs."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from lesson_files import (
    LESSONS,
    ROOT,
    SOLUTIONS,
    code_cells,
    code_lines,
    printed,
    read,
    tags,
)

EVERY = pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=lambda path: path.stem)
EACH_LESSON = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def exercises(notebook) -> list:
    """Return the Markdown cells that pose an exercise."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "markdown" and re.search(r"^## Exercise \d", cell.source, re.M)
    ]


def folded(cell) -> bool:
    """Return whether JupyterLab hides the cell's outputs until it is run."""
    return cell.metadata.get("jupyter", {}).get("outputs_hidden", False)


def prose(cell) -> str:
    return re.sub(r"```.*?```|\$\$.*?\$\$|<[^>]+>|\]\([^)]*\)", " ", cell.source, flags=re.S)


def test_there_are_lessons() -> None:
    assert [path.name for path in LESSONS] == [path.name for path in SOLUTIONS]
    assert len(LESSONS) >= 2


@EACH_LESSON
def test_it_opens_as_every_lesson_does(path: Path) -> None:
    notebook = read(path)
    facts = notebook.metadata["lesson"]
    title, versions = notebook.cells[:2]
    lines = title.source.splitlines()
    assert lines[0] == f"# {facts['title']}"
    assert lines[2].startswith("By the end you will have shown that ")
    places = [title.source.index(f"**You'll {word}**") for word in ("do", "learn", "need")]
    assert places == sorted(places)
    assert lines[-1] == f"{facts['minutes']} minutes · {facts['ranks']} ranks · {facts['device']}"
    assert int(path.name[:2]) == facts["number"]
    assert "version(" in versions.source and tags(versions) == ["nbval-ignore-output"]


@EACH_LESSON
def test_it_closes_as_every_lesson_does(path: Path) -> None:
    closing = read(path).cells[-1].source
    places = [
        closing.index(word) for word in ("In this notebook you", "**In practice:**", "**Next:**")
    ]
    assert places == sorted(places)
    assert 3 <= len(re.findall(r"^- \[[^]]+\]\(https://[^)]+\)$", closing, re.M)) <= 6


@EVERY
def test_its_size_is_bounded(path: Path) -> None:
    notebook = read(path)
    posed = exercises(notebook)
    assert 2 <= len(posed) <= 4
    assert len(notebook.cells) <= 26 + 3 * len(posed)
    assert path.stat().st_size <= 300_000
    kinds = "".join(cell.cell_type[0] for cell in notebook.cells)
    assert "ccc" not in kinds, "three code cells in a row"
    lengths = [len(code_lines(cell)) for cell in code_cells(notebook)]
    assert max(lengths) <= 20
    assert sum(length < 7 for length in lengths) * 2 >= len(lengths)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert len(prose(cell).split()) <= 120, cell.id
        else:
            assert not any(line.rstrip().endswith(";") for line in code_lines(cell)), cell.id
            # As notebooks/.ruff.toml; ruff does not look into a cell that begins with %%torchrun.
            assert all(len(line) <= 75 for line in cell.source.splitlines()), cell.id


@EVERY
def test_at_most_four_figures_are_live(path: Path) -> None:
    live = [
        cell
        for cell in code_cells(read(path))
        if re.search(r"\btorchrun\(", cell.source)
        and "live=False" not in cell.source
        or cell.source.startswith("%%torchrun")
        and not re.search(r"--(quiet|background)\b", cell.source)
    ]
    assert 1 <= len(live) <= 4


@EVERY
def test_it_is_committed_as_executed(path: Path) -> None:
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    ignored = [cell for cell in cells if "nbval-ignore-output" in tags(cell)]
    assert len(ignored) <= 3
    compared = [cell for cell in cells if printed(cell).strip() and cell not in ignored]
    assert len(compared) >= 5
    for cell in cells:
        known = {"nbval-ignore-output", "exercise"}
        assert set(tags(cell)) <= known, f"{cell.id}: nbval knows only some tags"
        assert not any(output.output_type == "error" for output in cell.outputs), cell.id


@EVERY
def test_its_outputs_hold_on_other_machines(path: Path) -> None:
    for cell in code_cells(read(path)):
        text = printed(cell)
        assert socket.gethostname() == "localhost" or socket.gethostname() not in text
        assert not re.search(r"(?<![\w.\]])/(?!/)[\w.-]+/[\w.-]+", text), f"{cell.id}: a whole path"
        assert not re.search(r"\bpid\b|0x[0-9a-f]{6,}|file://", text), cell.id
        measured = re.search(r"≈", text)
        if measured and "nbval-ignore-output" not in tags(cell) and "check_" not in cell.source:
            assert re.search(r"^\s*assert ", cell.source, re.M), f"{cell.id} asserts no range"


@EVERY
def test_its_links_lead_somewhere(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            continue
        for target in re.findall(r"\]\(([^)]+)\)", cell.source):
            if target.startswith("http"):
                assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[^\s]*)?", target), target
            else:
                assert (path.parent / target).is_file(), target


@EACH_LESSON
def test_every_exercise_has_a_hint_a_stub_and_a_check(path: Path) -> None:
    notebook = read(path)
    for text in exercises(notebook):
        place = notebook.cells.index(text)
        stub, check = notebook.cells[place + 1 : place + 3]
        assert "★" in text.source and "<details><summary>Hint" in text.source
        assert "exercise" in tags(stub)
        assert re.search(r"^check_\w+\(", check.source, re.M), check.id
        assert "Not yet: " in printed(check), "the stub is the faulty version"


@EACH_LESSON
def test_no_output_answers_before_its_cell_has_run(path: Path) -> None:
    notebook = read(path)
    assert any("folded until you run" in cell.source for cell in notebook.cells[:3])
    for cell in code_cells(notebook):
        if cell.outputs and "version(" not in cell.source:
            assert folded(cell), f"{cell.id}: fold it (View, Collapse All Outputs) and save"


@EACH_LESSON
def test_the_solution_differs_in_the_tagged_cells_only(path: Path) -> None:
    lesson, solution = read(path), read(path.parent / "solutions" / path.name)
    assert [cell.id for cell in lesson.cells] == [cell.id for cell in solution.cells]
    assert lesson.metadata == solution.metadata
    different = 0
    for ours, theirs in zip(lesson.cells, solution.cells, strict=True):
        assert tags(ours) == tags(theirs)
        assert not folded(theirs), f"{theirs.id}: a solution shows what it prints"
        if "exercise" in tags(ours):
            different += ours.source != theirs.source
        else:  # a page beside the lessons is one folder up from a solution
            assert ours.source == theirs.source.replace("](../", "]("), ours.id
    assert different >= len(exercises(lesson))
    for cell in code_cells(solution):
        if "check_" in cell.source and "import" not in cell.source:
            assert printed(cell).startswith("Yes: "), cell.id


@EACH_LESSON
def test_the_readme_has_its_row(path: Path) -> None:
    facts = read(path).metadata["lesson"]
    link = f"[{path.name[:2]} {facts['title']}](notebooks/{path.name})"
    row = f"| {link} | {facts['goal']} | {facts['minutes']} |"
    assert row in (ROOT / "README.md").read_text().splitlines()


@EACH_LESSON
def test_the_goal_is_the_one_in_the_opening(path: Path) -> None:
    notebook = read(path)
    opening = notebook.cells[0].source.split("shown that ")[1]
    assert opening.startswith(notebook.metadata["lesson"]["goal"])


@EVERY
def test_every_measured_number_in_the_prose_is_printed(path: Path) -> None:
    notebook = read(path)
    seen = "\n".join(printed(cell) + cell.source for cell in code_cells(notebook))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            own = "\n".join(line for line in prose(cell).splitlines() if line[:1] != ">")
            for number in re.findall(r"(?<![\w.])\d+\.\d+\b|(?<![\w.])\d{1,3},\d{3}\b", own):
                assert number in seen, f"{cell.id}: no cell prints {number}"
