"""The notebooks of the course, as the tests read them."""

from __future__ import annotations

from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def lesson(number: int) -> nbformat.NotebookNode:
    return read(next(path for path in LESSONS if path.name.startswith(f"{number:02}_")))


def solution(number: int) -> nbformat.NotebookNode:
    return read(next(path for path in SOLUTIONS if path.name.startswith(f"{number:02}_")))


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def code_lines(cell: nbformat.NotebookNode) -> list[str]:
    """Return the lines that count: no blank ones, no comments, not the line of a magic."""
    lines = (line.strip() for line in cell.source.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "%%"))]


def printed(cell: nbformat.NotebookNode) -> str:
    """Return every text that the cell put out, whatever its kind."""
    texts = []
    for output in cell.get("outputs", []):
        texts.append(output.get("text", ""))
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/"):
                texts.append(data)
        texts.extend(output.get("traceback", []))
    return "\n".join(texts)
