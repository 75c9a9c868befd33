"""When to draw again: often enough to watch, rarely enough not to matter."""

from __future__ import annotations

import time

_INTERVAL_S = 0.33
_SHARE = 0.03
_MOST = 600


class Budget:
    """Says when the next redraw is due.

    At most three a second; less where drawing would take more than 3 % of the time; and ever
    fewer as a run grows older, so that its notebook gets 600 pictures in the first ten minutes
    and a hundred more in a day.
    """

    def __init__(self) -> None:
        self.redraws = 0
        self._began = time.monotonic()
        self._due_at = 0.0
        self._cost = 0.0

    def due(self) -> bool:
        """Returns whether it is time."""
        return time.monotonic() >= self._due_at

    def spent(self, seconds: float) -> None:
        """Notes a redraw that took so much CPU time."""
        self.redraws += 1
        self._cost = seconds if self.redraws == 1 else 0.7 * self._cost + 0.3 * seconds
        now = time.monotonic()
        age = now - self._began
        interval = max(_INTERVAL_S, self._cost / _SHARE, age / 200)
        if self.redraws >= _MOST:
            interval = max(interval, age / 20)
        self._due_at = now + interval
