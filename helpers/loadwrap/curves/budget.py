"""When to draw again: often enough to watch, rarely enough not to matter."""

from __future__ import annotations

import statistics
import time
from collections import deque

_INTERVAL_S = 0.25
_SHARE = 0.03
_MOST = 600


class Budget:
    """Says when the next redraw is due.

    At most four a second; less where drawing would take more than 3 % of the time; and ever
    fewer as a run grows older, so that its notebook gets 600 pictures in the first six minutes
    and a hundred more in a day.
    """

    def __init__(self) -> None:
        self.redraws = 0
        self._began = time.monotonic()
        self._due_at = 0.0
        self._costs: deque[float] = deque(maxlen=5)

    def due(self) -> bool:
        """Returns whether it is time."""
        return time.monotonic() >= self._due_at

    def spent(self, seconds: float) -> None:
        """Notes a redraw that took so much CPU time."""
        self.redraws += 1
        if self.redraws > 1:  # the first loads fonts, and says nothing of those to come
            self._costs.append(seconds)
        cost = statistics.median(self._costs) if self._costs else 0.0
        now = time.monotonic()
        age = now - self._began
        interval = max(_INTERVAL_S, cost / _SHARE, age / 200)
        if self.redraws >= _MOST:
            interval = max(interval, age / 20)
        self._due_at = now + interval
