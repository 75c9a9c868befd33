"""How a job is asked to stop: politely first, and gone within two seconds all the same."""

from __future__ import annotations

import signal
import time

# torchrun passes SIGINT on to its ranks, which lets a script save and leave. A rank that is
# blocked in a collective never sees it and torchrun would wait 30 s for it; SIGTERM ends such a
# rank in half a second.
_STEPS = ((0.0, signal.SIGINT), (1.0, signal.SIGTERM), (1.7, signal.SIGKILL))


class Escalation:
    """Which signal is due, at which moment after the stop was asked for.

    Example:
        >>> stop = Escalation(now=10.0)
        >>> [stop.due(10.0), stop.due(10.5), stop.due(11.2), stop.due(12.0)]
        [<Signals.SIGINT: 2>, None, <Signals.SIGTERM: 15>, <Signals.SIGKILL: 9>]
    """

    def __init__(self, now: float | None = None) -> None:
        """Starts the clock; ``now`` is in seconds of ``time.monotonic``."""
        self._start = time.monotonic() if now is None else now
        self._steps = list(_STEPS)

    def due(self, now: float | None = None) -> signal.Signals | None:
        """Returns the signal to send now, each of them once; None if none is due."""
        passed = (time.monotonic() if now is None else now) - self._start
        found = None
        while self._steps and self._steps[0][0] <= passed:
            found = self._steps.pop(0)[1]
        return found

    def hurry(self) -> None:
        """Makes the last step due at once (the user pressed stop twice)."""
        self._steps = [(0.0, signal.SIGKILL)]
