"""What a path is, where it is no regular file: a pipe or a device must not be read or replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISFIFO, "a FIFO (named pipe)"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


def not_regular(path: Path) -> str:
    """Returns in words what a path is instead of a regular file or a folder; else nothing."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    kind = next((words for known, words in _KINDS if known(mode)), "a special file")
    return f"is {kind}, not a regular file"


def writable_place(path: Path) -> Path:
    """Returns the file to replace: what a link points to, so that the link stays.

    Raises:
        OSError: There is something that is not a regular file, and it would be gone.
    """
    place = Path(os.path.realpath(path)) if path.is_symlink() else path
    if wrong := not_regular(place):
        raise OSError(f"{path} {wrong}: it is not replaced")
    if place.is_dir():
        raise IsADirectoryError(f"{path} is a folder: it is not replaced")
    return place
