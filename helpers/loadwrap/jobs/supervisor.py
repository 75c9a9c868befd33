"""Stands above a plain ``torchrun`` and leaves nothing of it behind.

torchrun starts each rank in a session of its own and closes the descriptors it inherited, so
neither a signal to its group nor a guard inside a rank reaches everything. Two processes stand
above it, a guard and below it a supervisor. Both adopt whatever loses its parent below them
("subreapers"): whichever of kernel, guard, supervisor and torchrun ends first, one is left that
sees it and ends everything below. They add nothing to the ranks, and the torchrun command stays
as it is printed.
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
_PATIENCE = 5.0  # seconds for a killed process to be gone; one in state D may stay


def main(started: frozenset[str]) -> None:
    """Runs torchrun: ``sys.argv`` holds the kernel's pid, a log file, and the command.

    Args:
        started: Unused; what every helper process of ours is given.
    """
    kernel, log, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    stop = _Stop()
    signal.signal(signal.SIGINT, stop.ask)
    processes.adopt_orphans()
    guard = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until it is clear whose it is
    supervisor = os.fork()
    stop.below = supervisor
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if not supervisor:
        processes.adopt_orphans()  # a fork does not inherit it
        _supervise(guard, log, command, stop)
    while True:
        pid, status = os.waitpid(supervisor, os.WNOHANG)
        if pid or os.getppid() != kernel:
            break
        time.sleep(_LOOK_EVERY)
    processes.end_descendants(_PATIENCE)
    code = os.waitstatus_to_exitcode(status) if pid else 1
    os._exit(code if code >= 0 else 128 - code)


class _Stop:
    """What the kernel has asked for: nothing, a stop, or (asked twice) a stop at once."""

    def __init__(self) -> None:
        self.escalation: Escalation | None = None
        self.below = 0  # in the guard: the supervisor, which obeys

    def ask(self, signum: int, frame: FrameType | None) -> None:
        if self.below:
            processes.kill([self.below], signum)
        elif self.escalation:
            self.escalation.hurry()
        else:
            self.escalation = Escalation()


def _supervise(guard: int, log: str, command: list[str], stop: _Stop) -> None:
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
        if os.getppid() != guard:
            break
        signum = stop.escalation.due() if stop.escalation else None
        if signum == signal.SIGKILL:
            processes.end_descendants(_PATIENCE)
        elif signum:
            torchrun.send_signal(signum)
        time.sleep(_LOOK_EVERY)
    processes.end_descendants(_PATIENCE)
    code = torchrun.returncode if torchrun.returncode is not None else 1
    os._exit(code if code >= 0 else 128 - code)
