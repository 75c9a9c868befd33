"""A job whose ranks are forked by the warm host, as the kernel sees it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from .job import Job, RankEnd

if TYPE_CHECKING:
    from .client import Host


class WarmJob(Job):
    """A job of the host's."""

    def __init__(self, host: Host, number: int, run: str) -> None:
        """Belongs to one host, under a number."""
        super().__init__()
        self.number = number
        self.run = run
        self.groups: list[int] = []
        self._host = host

    @property
    def ready(self) -> bool:
        """Whether the host takes jobs at once."""
        return self._host.ready

    def pump(self, timeout: float = 0.0) -> None:
        """Takes in what the host has said; see ``Job.pump``."""
        if self._host.owner != os.getpid():  # a fork of the kernel: not its job
            time.sleep(timeout)
            return
        self._host.pump(timeout)

    def stop(self) -> None:
        """Passes the stop on; a job that the host has not begun yet is over at once."""
        self.stopping = True
        self._host.pump()
        self._host.stop(self.number)
        if not self._host.ready:  # the host will find both words, and not begin
            self.hear({"event": "done", "code": 128 + signal.SIGINT})

    def hear(self, message: dict[str, Any]) -> None:
        """Takes in one event of this job."""
        event = message["event"]
        if event == "agent":
            self.agent = message["pid"]
        elif event == "rank":
            self.ranks[message["rank"]] = message["pid"]
            self.groups.append(message["pid"])
        elif event == "exit":
            if self.ranks.get(message["rank"]) == message["pid"]:
                del self.ranks[message["rank"]]
            if "code" in message:
                self.ends.append(RankEnd(message["rank"], message["code"], message["time_ns"]))
        elif event == "done":
            self.code = message["code"]
            self._host.jobs.pop(self.number, None)
