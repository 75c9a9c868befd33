"""Find the files that a lesson launches, and show lines of them instead of a copy."""

from __future__ import annotations

import ast
import os
from pathlib import Path

__all__ = ["launch_file", "show"]


def launch_file(name: str) -> str:
    """Finds a file of ``launch/`` from wherever the notebook lies.

    Args:
        name: The name of the file, for instance ``"train.py"``.

    Returns:
        Its path relative to the working directory, so that a command line which contains it is the
        same on every machine.

    Raises:
        FileNotFoundError: No folder above the working directory has ``launch/<name>``.

    Example:
        >>> launch_file("train.py")  # in notebooks/  # doctest: +SKIP
        '../launch/train.py'
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / "launch" / name
        if path.is_file():
            return os.path.relpath(path, here)
    raise FileNotFoundError(
        f"no launch/{name} in {here} or above: open the lesson in its own folder"
    )


def show(path: str | os.PathLike[str], *names: str) -> None:
    """Shows functions or classes of a Python file as they stand in it; the file is not imported.

    Args:
        path: The file.
        names: What to show, in this order.

    Raises:
        ValueError: The file defines no such name at its top level.

    Example:
        >>> show(show.__code__.co_filename, "show")
        <IPython.core.display.Markdown object>
    """
    text = Path(path).read_text(encoding="utf-8")
    found = {
        node.name: ast.get_source_segment(text, node)
        for node in ast.parse(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path} defines no {missing[0]}; it has {', '.join(found)}")
    source = "\n\n\n".join(found[name] or "" for name in names)

    from IPython.display import Markdown, display

    display(Markdown(f"```python\n# {Path(path).name}\n{source}\n```"))
