"""A job as its warm host knows it: the processes that were forked for it, and their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field

from .. import folder
from . import processes, wire
from .stopping import Escalation


@dataclass
class HostedJob:
    """One job of the host's.

    Attributes:
        number: What the kernel calls it.
        run: The run folder.
        agent: The agent's pid.
        link: The connection to the agent.
        ranks: ``{pid: rank}`` of those alive.
        groups: Every rank's process group.
        stop: What is due, once a stop was asked for.
        code: The agent's exit code, once it has ended.
        ended: When that was, in seconds of ``time.monotonic``.
    """

    number: int
    run: str
    agent: int
    link: wire.Link
    ranks: dict[int, int] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)
    stop: Escalation | None = None
    code: int | None = None
    ended: float = 0.0

    def press(self) -> None:
        """Sends the signal that is due to a job that is to stop."""
        signum = self.stop.due() if self.stop and self.code is None else None
        if signum == signal.SIGKILL:
            self.kill_groups()
        if signum:
            processes.kill([self.agent], signum)

    def kill_groups(self) -> None:
        """Ends the ranks; a rank's DataLoader workers are in its group."""
        for group in self.groups:
            processes.kill_group(group)


def sweep(job: HostedJob, others: Iterable[HostedJob]) -> None:
    """Ends what left its rank's group: without its parent, it is a child of this process."""
    ours = {job.agent for job in others} | {pid for job in others for pid in job.ranks}
    table = processes.parents()
    for pid in [pid for pid, parent in table.items() if parent == os.getpid()]:
        if pid in ours:
            continue
        # A process that only forked shows this process's environment, whichever job it is of.
        run = processes.environment(pid).get(folder.RUN_ENV, "" if ours else job.run)
        if run == job.run:
            processes.kill([*processes.descendants(pid, table), pid])
