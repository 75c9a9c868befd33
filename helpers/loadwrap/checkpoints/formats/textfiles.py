"""Small text and JSON files beside the weights, read with a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST = 64 << 20


def read_json(path: Path) -> Any:
    """Its content, or None if it is missing, too large or no JSON."""
    try:
        if path.stat().st_size > MOST:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_line(path: Path) -> str | None:
    """The first line of a small text file, or None."""
    try:
        with path.open("rb") as file:
            text = file.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return text.splitlines()[0].strip() if text else ""


def inside(folder: Path, name: str) -> Path | None:
    """A file of the folder by a name that another file gives; None if it leads out of it."""
    if not name or name.startswith(("/", "\\")) or ".." in Path(name).parts or "\0" in name:
        return None
    return folder / name
