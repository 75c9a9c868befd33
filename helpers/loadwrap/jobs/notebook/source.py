"""``as_file``: a function from the notebook, as a file that ranks can import."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cells import write_with_map
from .collect import Collector
from .literals import SourceError

__all__ = ["SourceError", "as_file"]


def as_file(fn: Callable[..., Any], directory: str | os.PathLike[str] | None = None) -> str:
    """Writes a function from the notebook to a file that ranks can import.

    The file holds the function as it was written, with what it refers to and nothing
    else: the imports it uses, the notebook's functions and classes it uses, and constants
    (numbers, text, paths, dtypes, and tuples, lists, dicts and sets of these) with the value they
    have now. The name of the file ends in a hash of its contents: the same function gives
    the same file. A class of the notebook can be given as well.

    A function that was imported from a plain ``.py`` file needs no copy: its own file is
    named. One from a package gets a file that imports it.

    Args:
        fn: A function defined at the top of a cell, or imported.
        directory: Folder for the file; by default ``runs/cells`` in the current folder.

    Returns:
        ``"PATH:NAME"``, with an absolute path.

    Raises:
        SourceError: The function cannot stand alone in a file (a closure, a lambda, a
            method; it refers to a model or an open file; its source is gone). The message
            names the thing and the remedy.
        OSError: The folder cannot be written.

    Example:
        >>> from textwrap import shorten
        >>> as_file(shorten).rpartition("/")[2]
        'textwrap.py:shorten'
    """
    plain = _plain_file(fn)
    if plain is not None:
        return plain
    collector = Collector(fn)
    name = collector.take(fn)
    folder = Path("runs", "cells") if directory is None else Path(directory)
    text, pieces = collector.contents.render(name, folder)
    return f"{write_with_map(folder, name, text, pieces)}:{name}"


def _plain_file(fn: Any) -> str | None:
    """Returns the ``PATH:NAME`` of a top-level function of an imported file, if it is one."""
    name, home = getattr(fn, "__qualname__", None), getattr(fn, "__module__", None)
    module = sys.modules.get(home) if isinstance(home, str) and home != "__main__" else None
    if not isinstance(name, str) or getattr(module, name, None) is not fn:
        return None
    file = getattr(module, "__file__", None)
    if getattr(module, "__package__", None) or not file or not os.path.isfile(file):
        return None  # a package's file uses its neighbours: it cannot be imported by its path
    return f"{os.path.abspath(file)}:{name}"
