"""Makes a run's folder and keeps its record: what was launched, and how it ended."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import folder
from .errors import LaunchError

_ROOM = 8 * 2**20  # bytes: less than this left, and the first checkpoint fills the disk


def make(runs: str | os.PathLike[str], script: str) -> Path:
    """Makes a new folder for one run; its name sorts by time and says what ran.

    Raises:
        LaunchError: The disk is full or cannot be written to.
    """
    if not os.fspath(runs) or "\0" in str(runs):
        raise LaunchError(f"runs={runs!r} is no name of a folder.")
    stem = re.sub(r"\W+", "-", Path(script).stem).strip("-")[:40] or "job"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{secrets.token_hex(2)}"
    path = Path(os.path.abspath(os.path.join(runs, name)))
    try:
        # Every folder that a rank writes to exists before the rank does.
        for part in (folder.METRICS, folder.LOGS, folder.ERRORS, folder.STACKS):
            (path / part).mkdir(parents=True)
        free = shutil.disk_usage(path).free
    except OSError as error:
        raise LaunchError(
            f"{_cannot_write(path, error)}; runs=FOLDER puts runs elsewhere."
        ) from None
    if free < _ROOM:
        shutil.rmtree(path, ignore_errors=True)
        raise LaunchError(
            f"The disk that holds {path.parent} is full ({free // 1024} KiB free): free some "
            "space, or put runs elsewhere with runs=FOLDER."
        )
    return path


def _cannot_write(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"The disk that holds {path.parent} is full"
    if error.errno == errno.EROFS:
        return f"The disk that holds {path.parent} is read-only"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"You may not write to {path.parent}"
    return f"The run folder {path} cannot be made ({error.strerror})"


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Replaces a run's record as a whole; a disk without room leaves the old one."""
    part = path / (folder.RECORD + ".part")
    try:
        part.write_text(json.dumps(record, indent=1))
        os.replace(part, path / folder.RECORD)
    except OSError:
        part.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """Returns a run's record; empty if it has none (a cluster's run) or none that is whole."""
    try:
        found = json.loads((path / folder.RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
