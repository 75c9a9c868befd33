"""Files made from notebook cells, and the way back from a file's line to the cell's.

Ranks cannot see a notebook, so what they run is written to a file first: a whole
``%%torchrun`` cell by :func:`write_cell`, a function by ``as_file``. Each file has a map
beside it (``FILE.map.json``) that says which of its lines came from which cell, and
:func:`translate` rewrites a rank's traceback with it, in the words that IPython uses.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import linecache
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_COLOUR = r"(?:\x1b\[[0-9;]*m)*"  # Python 3.13 and newer colour a traceback on request
_FRAME = re.compile(
    rf'File {_COLOUR}"(?P<path>[^"\n]+)"{_COLOUR}, line {_COLOUR}(?P<line>\d+){_COLOUR}'
)
_WARNING = re.compile(r"(?P<path>/[^\n\"':]*?\.py):(?P<line>\d+)(?=:)")
_SYNTAX = re.compile(r"\((?P<path>[^()\s/\\]+\.py), line (?P<line>\d+)\)")
_FIRST_LINE = "# A cell of the notebook: the line numbers below are the cell's own."


@dataclass(frozen=True)
class Piece:
    """Lines of a file that were copied from one place.

    Attributes:
        first: First line in the file, from 1.
        last: Last line in the file.
        label: Where they came from: ``"Cell In[7]"``, or ``'File "train.py"'``.
        line: The line there that became ``first``.
    """

    first: int
    last: int
    label: str
    line: int


def write_cell(
    source: str, directory: str | os.PathLike[str], name: str, label: str | None = None
) -> Path:
    """Writes the body of a ``%%torchrun`` cell as a script for the ranks.

    The first line of the file stands for the line of the magic, so that line 7 of the
    cell is line 7 of the file. The same body gives the same file.

    Args:
        source: The body: everything below the line of the magic.
        directory: Folder for the script; made if it is missing.
        name: Start of the file's name; a hash of the contents follows.
        label: What to call the cell in a traceback; by default the running cell's
            ``"Cell In[7]"``.

    Returns:
        The absolute path of the script.

    Raises:
        OSError: The folder cannot be written.

    Example:
        >>> import tempfile
        >>> script = write_cell("print('here')", tempfile.mkdtemp(), "cell")
        >>> script.read_text().splitlines()[1]
        "print('here')"
    """
    body = source.replace("\r\n", "\n")
    text = f"{_FIRST_LINE}\n{body}" + ("" if body.endswith("\n") else "\n")
    if label is None:
        label = _running_cell() or "the cell"
    return write_with_map(directory, name, text, [Piece(1, text.count("\n"), label, 1)])


def write_with_map(
    directory: str | os.PathLike[str], name: str, text: str, pieces: Iterable[Piece]
) -> Path:
    """Writes ``directory/NAME-HASH.py`` and its map, each in one step.

    The hash is that of the text alone: a cell that was run again has another number and
    still gives the same file. Two processes may write at once.

    Returns:
        The absolute path of the file.
    """
    folder = Path(directory).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8")
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}.py"
    # The map goes first: whoever finds the file finds its map.
    _replace(_map_of(path), (json.dumps([asdict(piece) for piece in pieces]) + "\n").encode())
    if not path.exists() or path.read_bytes() != data:
        _replace(path, data)
    return path


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _map_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.map.json")


def cell_line(path: str | os.PathLike[str], line: int) -> tuple[str, int] | None:
    """Says where a line of a file came from.

    Returns:
        ``(label, line)``, such as ``("Cell In[7]", 3)``; None for a file without a map
        and for a line that no cell holds.
    """
    return _find(_read_map(Path(path)), line)


def _find(pieces: list[Piece], line: int) -> tuple[str, int] | None:
    for piece in pieces:
        if piece.first <= line <= piece.last:
            return piece.label, piece.line + line - piece.first
    return None


def _read_map(path: Path) -> list[Piece]:
    try:
        return [Piece(**entry) for entry in json.loads(_map_of(path).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def translate(text: str, directory: str | os.PathLike[str] = ".") -> str:
    """Rewrites places in files made from cells as places in the cells.

    ``File "…/runs/cells/f-0a1b.py", line 31, in f`` becomes ``Cell In[7], line 3, in f``,
    also inside exception groups, syntax errors, stack dumps, warnings and text that
    torchrun prefixed. Whatever belongs to no cell stays as it is.

    Args:
        text: A traceback, or any output of a rank.
        directory: Where the job ran: relative paths start there.

    Example:
        >>> import tempfile
        >>> script = write_cell("1/0", tempfile.mkdtemp(), "cell", label="Cell In[7]")
        >>> translate(f'  File "{script}", line 2, in <module>')
        '  Cell In[7], line 2, in <module>'
    """
    base = Path(directory)
    folders = {base / "runs" / "cells"}  # where a bare file name may lie
    read = functools.cache(_read_map)

    def rewrite(form: str) -> Callable[[re.Match[str]], str]:
        def one(match: re.Match[str]) -> str:
            path, line = base / match["path"], int(match["line"])
            found = _find(read(path), line)
            if found is None:
                return match[0]
            folders.add(path.parent)
            return form.format(*found)

        return one

    def bare(match: re.Match[str]) -> str:
        for folder in sorted(folders):
            found = _find(read(folder / match["path"]), int(match["line"]))
            if found is not None:
                return "({}, line {})".format(*found)
        return match[0]

    text = _FRAME.sub(rewrite("{}, line {}"), text)
    text = _WARNING.sub(rewrite("{}, line {}"), text)
    # SyntaxError's own message gives only the name of the file: "(cell-0a1b.py, line 5)".
    return _SYNTAX.sub(bare, text)


def current_shell() -> Any:
    """Returns the running IPython shell, or None. Imports nothing."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def executed_cells() -> list[str]:
    """Returns the file names under which cells were compiled, the last one run first.

    IPython keeps every cell's text in :mod:`linecache` under such a name.
    """
    cached = [
        name for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None
    ]
    numbers: dict[str, int] = getattr(
        getattr(current_shell(), "compile", None), "_filename_map", {}
    )
    cached.reverse()  # of cells without a number, the later entry wins: sorting is stable
    return sorted(cached, key=lambda name: -numbers.get(name, 0))


def _running_cell() -> str | None:
    """Returns what IPython calls the cell that is running now."""
    # Asked of the stack: when the shell counts a cell differs between versions of IPython.
    frame = inspect.currentframe()
    while frame is not None:
        label = _cell_label(frame.f_code.co_filename)
        if label is not None:
            return label
        frame = frame.f_back
    return None


def _cell_label(filename: str) -> str | None:
    naming = getattr(getattr(current_shell(), "compile", None), "format_code_name", None)
    found = naming(filename) if naming is not None else None
    return " ".join(found) if found else None


def place_label(filename: str, name: str) -> str:
    """Returns what a reader calls the place whose code has this file name.

    Args:
        filename: ``co_filename`` of the code.
        name: What is defined there, for a cell whose number is not known.

    Returns:
        ``"Cell In[7]"``; ``'File "train.py"'`` for a real file; else
        ``"the cell that defines NAME"``.
    """
    label = _cell_label(filename)
    if label is not None:
        return label
    if os.path.exists(filename):
        return f'File "{filename}"'
    return f"the cell that defines {name}"
