"""Starts a job as a terminal would: the plain ``torchrun`` command, under a supervisor."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from .. import folder
from . import bootstrap, processes
from .job import Job
from .options import Launch, torchrun_command

_UP_WITHIN = 2.0  # seconds for the supervisor to start


class ColdJob(Job):
    """A plain torchrun below a supervisor of ours.

    Example:
        >>> from pathlib import Path
        >>> from loadwrap.jobs.cold import start
        >>> start  # doctest: +ELLIPSIS
        <function start at ...>
    """

    def __init__(self, supervisor: subprocess.Popen[bytes], run: Path) -> None:
        """Takes over a supervisor that has just been started."""
        super().__init__()
        self._supervisor = supervisor
        self._run = str(run)
        self._heard = b""

    def pump(self, timeout: float = 0.0) -> None:
        """Takes in the supervisor's end; see ``Job.pump``."""
        assert self._supervisor.stdout is not None
        if self.agent is None:
            self._hear(self._supervisor.stdout.fileno(), timeout)
        elif self.code is None:
            try:
                self._supervisor.wait(timeout or 0.001)
            except subprocess.TimeoutExpired:
                return
        code = self._supervisor.poll()
        if code is not None and self.code is None:
            self._supervisor.stdout.close()
            self.agent = self.agent or -1
            self.code = 128 - code if code > 128 else code  # torchrun's own signal, as Popen has it
            if code < 0:  # the supervisor itself was killed: what it watched is swept here, too
                processes.kill_marked(folder.RUN_ENV, self._run)

    def _hear(self, descriptor: int, timeout: float) -> None:
        if select.select([descriptor], [], [], timeout)[0]:
            self._heard += os.read(descriptor, 4096)
            if b"\n" in self._heard:
                self.agent = json.loads(self._heard)["pid"]

    def stop(self) -> None:
        """Passes the stop to the supervisor; see ``Job.stop``."""
        self.stopping = True
        end = time.monotonic() + _UP_WITHIN
        while self.agent is None and self.code is None and time.monotonic() < end:
            self.pump(0.05)  # until it has its handler, the signal would only break it
        if self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGINT)

    def look(self) -> dict[int, int]:
        """Finds the ranks' pids among the supervisor's descendants; Linux only."""
        self.ranks = self._found()
        return self.ranks

    def _found(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for pid in processes.parents():
            env = processes.environment(pid)
            if env.get(folder.RUN_ENV) == self._run and env.get("RANK", "").isdigit():
                # The lowest pid of a rank is the rank; its DataLoader workers come later.
                rank = int(env["RANK"])
                found[rank] = min(pid, found.get(rank, pid))
        return dict(sorted(found.items()))


def start(launch: Launch, run: Path) -> ColdJob:
    """Starts torchrun for a checked launch.

    Args:
        launch: What to start.
        run: The run folder, which exists.

    Raises:
        OSError: No process could be started.
    """
    command = torchrun_command() + launch.argv(
        "--log-dir", str(run / folder.LOGS), "--redirects", "3"
    )
    log = str(run / folder.AGENT_LOG)
    supervisor = subprocess.Popen(
        bootstrap.command("supervisor", str(os.getpid()), log, *command, light=True),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**launch.environment, folder.RUN_ENV: str(run)},
        start_new_session=True,
    )
    return ColdJob(supervisor, run)
