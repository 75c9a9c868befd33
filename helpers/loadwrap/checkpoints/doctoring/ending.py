"""Ends a child process and everything that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

MARK = "LOADWRAP_BUILD"
"""Environment variable that marks the processes of one child; its value is unique."""


def end_all(child: subprocess.Popen[bytes], mark: str) -> None:
    """Kills a child's process group and, on Linux, what left the group but inherited the mark.

    Args:
        child: Started in a session of its own, with MARK set in its environment.
        mark: The value of MARK there.
    """
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it
    if child.poll() is None:
        child.kill()
    child.wait()
    for _ in range(20):  # a process may start another one while they are looked for
        found = list(_marked(mark))
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def _marked(mark: str) -> Iterator[int]:
    """Processes of this user that were started with the mark."""
    entry = f"{MARK}={mark}".encode()
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return  # not Linux
    for pid in pids:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # it has ended, or is another user's
        if entry in environment.split(b"\0"):
            yield pid
