"""The plain arguments of a save, checked: one sentence says what is wrong with which."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .plain import plain


def path_of(path: object) -> Path:
    """Returns a path.

    Raises:
        TypeError: It is none, or one of bytes.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"path={path!r}: a str or a pathlib.Path names the file")
    return Path(text)


def whole(name: str, value: Any, least: int) -> int:
    """Returns a whole number, also from NumPy or a tensor.

    Args:
        name: Of the argument, for the error.
        value: What was given.
        least: The smallest that makes sense.

    Raises:
        TypeError: It is no whole number, such as 1.5, "3" or True.
        ValueError: It is too small.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}={value!r}: {name} is a whole number, {least} or more")
    if number < least:
        raise ValueError(f"{name}={number}: {name} is {least} or more")
    return number


def extra_of(extra: Any) -> Any:
    """Returns the caller's own values as plain ones.

    Raises:
        TypeError: It is not a dict, or something in it could not be read back.
        ValueError: It holds itself.
    """
    if extra is not None and not isinstance(extra, Mapping):
        raise TypeError(f"extra is a {type(extra).__name__}: give a dict, {{name: value}}")
    try:
        return plain(dict(extra or {}), "extra")
    except RecursionError:
        raise ValueError("extra holds itself, or is nested too deep to be saved") from None
