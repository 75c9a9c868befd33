"""The names inside a run folder: the one thing that all rooms share.

A run folder is where everything about one job lies: what was launched, what each rank
logged and printed, and how it ended. ``jobs`` writes it, ``curves`` reads it, and a rank
finds it through one environment variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

RUN_ENV = "LOADWRAP_RUN"
"""Environment variable that holds the absolute path of the run folder in every rank."""

RECORD = "run.json"
METRICS = "metrics"
LOGS = "logs"
ERRORS = "errors"
STACKS = "stacks"
AGENT_LOG = "agent.log"

_RANK_FILE = re.compile(r"rank(\d+)\.\w+$")


def metrics_file(run: str | os.PathLike[str], rank: int) -> Path:
    """Returns the file to which ``log`` appends in one rank."""
    return Path(run) / METRICS / f"rank{rank}.jsonl"


def error_file(run: str | os.PathLike[str], rank: int) -> Path:
    """Returns the file in which a warm rank leaves its traceback."""
    return Path(run) / ERRORS / f"rank{rank}.json"


def stack_file(run: str | os.PathLike[str], rank: int) -> Path:
    """Returns the file into which ``faulthandler`` dumps a rank's stacks."""
    return Path(run) / STACKS / f"rank{rank}.txt"


def rank_files(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """Returns ``{rank: file}`` for the files named ``rankN.*`` in a folder, by rank."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    found = {int(m[1]): Path(folder) / name for name in names if (m := _RANK_FILE.fullmatch(name))}
    return dict(sorted(found.items()))


def output_files(run: str | os.PathLike[str], stream: str) -> dict[int, list[Path]]:
    """Returns ``{local rank: files}`` of one output stream, oldest attempt first.

    The layout is the one that torchrun's ``--log-dir`` makes:
    ``logs/<run id>/attempt_<k>/<local rank>/<stream>.log``.

    Args:
        run: The run folder.
        stream: ``"stdout"`` or ``"stderr"``.
    """
    found: list[tuple[int, int, Path]] = []
    for path in _glob(Path(run) / LOGS, f"*/attempt_*/*/{stream}.log"):
        attempt, local_rank = path.parts[-3].removeprefix("attempt_"), path.parts[-2]
        if attempt.isdigit() and local_rank.isdigit():
            found.append((int(local_rank), int(attempt), path))
    files: dict[int, list[Path]] = {}
    for rank, _, path in sorted(found):
        files.setdefault(rank, []).append(path)
    return files


def _glob(folder: Path, pattern: str) -> Iterator[Path]:
    try:
        yield from folder.glob(pattern)
    except OSError:  # the folder went away while we looked
        return
