"""How fast a run goes, from how its steps arrive."""

from __future__ import annotations

import time
from collections import deque

_WINDOW_S = 5.0
_LEAST_S = 0.5


class Pace:
    """Steps a second, over the last few seconds and over all."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None

    def note(self, step: int) -> None:
        """Notes the step that a run has reached now."""
        now = time.monotonic()
        if self._recent and step < self._recent[-1][1]:  # a restart went back
            self._recent.clear()
            self._first = None
        if self._first is None:
            self._first = now, step
        if not self._recent or step != self._recent[-1][1]:
            self._recent.append((now, step))
        while len(self._recent) > 2 and self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def recent(self) -> float | None:
        """Returns the steps a second of late, None if it is too early to say."""
        return self._between(self._recent[0]) if self._recent else None

    def overall(self) -> float | None:
        """Returns the steps a second from the first look to the last change."""
        return self._between(self._first) if self._first else None

    def _between(self, start: tuple[float, int]) -> float | None:
        end = self._recent[-1]
        seconds, steps = end[0] - start[0], end[1] - start[1]
        return steps / seconds if seconds >= _LEAST_S and steps > 0 else None
