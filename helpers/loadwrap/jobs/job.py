"""One running job, however it was started: what the rest of the library sees of it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field


@dataclass
class RankEnd:
    """How one rank ended, as its parent saw it."""

    rank: int
    code: int
    time_ns: int


@dataclass
class Job(ABC):
    """A job: the agent (torchrun) and its ranks.

    Attributes:
        code: torchrun's exit code; None while the job runs.
        ranks: ``{rank: pid}`` of the ranks that are known to be alive.
        ends: The ranks that have ended, in that order, where their parent can tell.
        stopping: Whether a stop was asked for.
    """

    code: int | None = None
    ranks: dict[int, int] = field(default_factory=dict)
    ends: list[RankEnd] = field(default_factory=list)
    stopping: bool = False
    agent: int | None = None

    @abstractmethod
    def pump(self, timeout: float = 0.0) -> None:
        """Takes in what has happened; waits up to ``timeout`` seconds for something to."""

    @abstractmethod
    def stop(self) -> None:
        """Asks the job to stop: SIGINT, then harder. A second call ends it at once."""

    @property
    def ready(self) -> bool:
        """Whether the process that starts it is up."""
        return True

    @property
    def ended(self) -> bool:
        """Whether the job is over and nothing of it is left."""
        if self.code is None:
            self.pump()
        return self.code is not None

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds; returns whether the job is over."""
        end = time.monotonic() + timeout
        while not self.ended:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.pump(left)
        return True
