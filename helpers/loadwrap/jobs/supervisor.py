"""Stands above a plain ``torchrun`` and leaves nothing of it behind.

torchrun starts each rank in a session of its own and closes the descriptors it inherited, so
neither a signal to its group nor a guard inside a rank reaches everything. This process
adopts whatever loses its parent below it (a "subreaper"), watches the kernel, and ends every
descendant when torchrun or the kernel has ended. It adds nothing to the ranks, and the
torchrun command stays as it is printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import FrameType

from . import processes
from .stopping import Escalation

_LOOK_EVERY = 0.05  # seconds
_PATIENCE = 5.0  # seconds in which every descendant must be gone; a D-state process may stay


def main(started: frozenset[str]) -> None:
    """Runs torchrun: ``sys.argv`` holds the kernel's pid, a log file, and the command.

    Args:
        started: Unused; what every helper process of ours is given.
    """
    parent, log, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    processes.adopt_orphans()
    stop: Escalation | None = None

    def on_interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal stop
        if stop:
            stop.hurry()
        stop = stop or Escalation()

    signal.signal(signal.SIGINT, on_interrupt)
    with open(log, "ab") as output:
        torchrun = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: processes.die_with_parent(signal.SIGTERM),
        )
    print(json.dumps({"pid": torchrun.pid}), flush=True)
    while torchrun.poll() is None:
        if os.getppid() != parent:
            end_all()
            os._exit(1)
        signum = stop.due() if stop else None
        if signum == signal.SIGKILL:
            end_all()
        elif signum:
            torchrun.send_signal(signum)
        time.sleep(_LOOK_EVERY)
    end_all()
    code = torchrun.returncode
    os._exit(code if code >= 0 else 128 - code)


def end_all() -> None:
    """Kills every descendant, those that appear meanwhile too, and reaps what became ours."""
    end = time.monotonic() + _PATIENCE
    while (pids := processes.descendants(os.getpid())) and time.monotonic() < end:
        processes.kill(pids)
        time.sleep(0.01)
