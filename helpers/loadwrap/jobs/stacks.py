"""Lets a rank say where it stands, and reads what it said.

``faulthandler`` can dump every thread's Python stack from a signal handler while the rank is
blocked inside a collective, where no Python code of ours would get a turn.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import re
import signal
import sys
from pathlib import Path
from typing import TextIO

from .. import folder
from . import processes

# A real-time signal where there are any: nobody's script uses this one, whereas SIGUSR1 is
# what Slurm sends to a script that asked to be warned before its time is up.
SIGNAL: int = signal.SIGRTMIN + 13 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2

_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)')
_WRAPPERS = {
    *("wrapper", "_wrapped", "inner", "decorate_context"),
    *("__call__", "_call_impl", "_wrapped_call_impl"),
}

_file: TextIO | None = (
    None  # kept open: faulthandler writes to the descriptor from the signal handler
)


def register() -> None:
    """Makes this rank dump its stacks into the run folder when ``SIGNAL`` arrives."""
    global _file
    if _file is not None:
        return
    path = folder.stack_file(os.environ[folder.RUN_ENV], int(os.environ.get("RANK", "0")))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _file = path.open("a")
        faulthandler.register(SIGNAL, file=_file, all_threads=True)
    except (OSError, ValueError, AttributeError):
        _file = None  # no place to write to: the rank cannot be asked, and training goes on


def ask(run: Path, rank: int, pid: int) -> int | None:
    """Asks one rank for its stacks; returns where in its file the answer will begin.

    Returns None if the rank has no handler: the signal would kill it.
    """
    if not processes.catches(pid, SIGNAL):
        return None
    path = folder.stack_file(run, rank)
    try:
        start = path.stat().st_size
    except OSError:
        start = 0
    processes.kill([pid], SIGNAL)
    return start


def read(run: Path, rank: int, start: int) -> str:
    """Returns one line such as ``in barrier at train.py:88``; empty if there is no answer yet."""
    try:
        with folder.stack_file(run, rank).open() as file:
            file.seek(start)
            text = file.read()
    except OSError:
        return ""
    # faulthandler lists the newest thread first, so the main thread comes last.
    blocks = [block for block in re.split(r"\n(?=Thread |Current thread )", text) if block.strip()]
    for block in reversed(blocks):
        frames = [m.groupdict() for m in _FRAME.finditer(block)]
        if frames:
            return _where(frames)
    return ""


def _where(frames: list[dict[str, str]]) -> str:
    """Turns frames, innermost first, into the user's line and what it called."""
    for depth, frame in enumerate(frames):
        if is_users(frame["file"]):
            called = [f["name"] for f in frames[:depth] if f["name"] not in _WRAPPERS]
            # The outermost of the called functions is the one that the user's line names. Python's
            # own functions (time.sleep) have no frame: then the line itself has to say it.
            return f"in {called[-1] if called else frame['name']} at {_place(frame)}"
    return f"in {frames[0]['name']} at {_place(frames[0])}"


def _place(frame: dict[str, str]) -> str:
    from .notebook import cells  # only who reads a stack needs it, not every rank

    if cell := cells.cell_line(frame["file"], int(frame["line"])):
        return f"{cell[0]}, line {cell[1]}"
    return f"{os.path.basename(frame['file'])}:{frame['line']}"


@functools.cache  # not at import: a rank that only logs need not pay for it
def _library_folders() -> tuple[str, ...]:
    import site
    import sysconfig

    paths = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    paths.update({os.path.dirname(os.path.dirname(os.path.abspath(__file__)))})
    return tuple({os.path.join(p, "") for path in paths for p in (path, os.path.realpath(path))})


def is_users(file: str) -> bool:
    """Tells whether a source file is the user's: not Python's, not an installed package's."""
    if file.startswith("<") or file == sys.executable:
        return False
    return not file.startswith(_library_folders())
