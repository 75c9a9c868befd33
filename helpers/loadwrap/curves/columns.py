"""What the pixels can show of a curve: the smallest and largest value in each column.

A column is a range of steps whose width is a power of two. When the run outgrows the columns,
neighbours are merged in pairs, so that adding a record costs the same however long the run
already is, and drawing costs what the screen is wide, not what the run is long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_PIECES = 32
_LARGEST_DRAWN = 1e290  # differences of larger values overflow

Floats = NDArray[np.float64]


class Vertices(NamedTuple):
    """A polyline: x and y float64 ``[n]``, broken where both are NaN."""

    x: Floats
    y: Floats


@dataclass
class Broken:
    """What is known of the records that are not finite."""

    first_step: int
    kind: str
    count: int
    to_the_end: bool


class Columns:
    """One curve, condensed as it grows.

    Args:
        limit: The most columns in one piece of the curve; at least half of them are used once
            the steps span that many.
    """

    def __init__(self, limit: int = 512) -> None:
        self.low = np.inf
        self.high = -np.inf
        self.first_step: int | None = None
        self.last_step: int | None = None
        self.end: tuple[int, float] | None = None
        self.broken: Broken | None = None
        self._limit = limit
        self._pieces: list[_Piece] = []
        self._gap = True

    def add(self, steps: NDArray[np.int64], values: Floats) -> None:
        """Adds records, steps int64 ``[n]`` and values float64 ``[n]``, in logged order."""
        if len(steps) == 0:
            return
        finite = np.isfinite(values)
        self._note_steps(steps)
        if finite.all():
            gaps = np.zeros(len(steps), bool)
            gaps[0] = self._gap
            self._gap = False
            if self.broken:
                self.broken.to_the_end = False
        else:
            gaps = self._note_broken(steps, values, finite)
            steps, values = steps[finite], values[finite]
            if len(steps) == 0:
                return
        values = np.clip(values, -_LARGEST_DRAWN, _LARGEST_DRAWN)
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        previous = self.end[0] if self.end else int(steps[0])
        self.end = int(steps[-1]), float(values[-1])
        # Where the step goes back (a restart) a new piece of line begins.
        back = np.flatnonzero(steps[1:] < steps[:-1]) + 1
        starts = [0, *back.tolist()] if len(back) <= _MOST_PIECES else [0]
        for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
            new_piece = not self._pieces or start > 0 or int(steps[0]) < previous
            if new_piece and len(self._pieces) < _MOST_PIECES:
                self._pieces.append(_Piece(self._limit))
            part = slice(start, stop)
            self._pieces[-1].add(steps[part], values[part], gaps[part])

    @property
    def dense(self) -> bool:
        """Whether columns hold several records each, so that the line is a band."""
        return any(piece.shift > 0 for piece in self._pieces)

    def vertices(self, most: int | None = None) -> Vertices:
        """Returns the polyline to draw, at most two points a column.

        Args:
            most: Merge columns, for this drawing only, until no piece has more than so many.
        """
        xs: list[Floats] = []
        ys: list[Floats] = []
        hole = np.array([np.nan])
        for piece in self._pieces:
            x, y = piece.vertices(most or self._limit)
            xs += [x, hole]
            ys += [y, hole]
        if not xs:
            return Vertices(np.empty(0), np.empty(0))
        return Vertices(np.concatenate(xs[:-1]), np.concatenate(ys[:-1]))

    def _note_steps(self, steps: NDArray[np.int64]) -> None:
        low, high = int(steps.min()), int(steps.max())
        self.first_step = low if self.first_step is None else min(self.first_step, low)
        self.last_step = high if self.last_step is None else max(self.last_step, high)

    def _note_broken(
        self, steps: NDArray[np.int64], values: Floats, finite: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Counts the non-finite records; returns which finite ones come right after one."""
        bad = ~finite
        first = int(np.argmax(bad))
        if self.broken is None:
            kind = "NaN" if np.isnan(values[first]) else "inf" if values[first] > 0 else "-inf"
            self.broken = Broken(int(steps[first]), kind, 0, not bool(finite[first:].any()))
        elif bool(finite.any()):
            self.broken.to_the_end = False
        self.broken.count += int(bad.sum())
        where = np.flatnonzero(finite)
        if len(where) == 0:
            self._gap = True
            return np.empty(0, bool)
        gaps = np.diff(where, prepend=-1) > 1
        gaps[0] |= self._gap
        self._gap = bool(bad[-1])
        return gaps


class _Piece:
    """A stretch in which the step does not go back, as columns sorted by step."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.shift = 0
        self._cells = _Cells.empty()

    def add(self, steps: NDArray[np.int64], values: Floats, gaps: NDArray[np.bool_]) -> None:
        if bool(np.any(steps[1:] < steps[:-1])):
            order = np.argsort(steps, kind="stable")
            steps, values, gaps = steps[order], values[order], gaps[order]
        old = self._cells
        low, high = int(steps[0]), int(steps[-1])
        if len(old.first):
            low, high = min(low, int(old.first[0])), max(high, int(old.last[-1]))
        shift = self.shift
        while (high >> shift) - (low >> shift) >= self._limit:
            shift += 1
        if shift > self.shift:
            self.shift = shift
            old = old.merged(shift)
        new = _Cells(steps, steps, values, values, values, values, gaps).merged(shift)
        # In order, only the last old column can share its range with the first new one.
        if len(old.first) and int(new.first[0]) < int(old.last[-1]):
            self._cells = old.joined(new).ordered(shift).merged(shift)
        else:
            self._cells = old.joined(new).merged(shift)

    def vertices(self, most: int) -> tuple[Floats, Floats]:
        """Returns up to two points a column, and a hole before each gap."""
        cells, shift = self._cells, self.shift
        while len(cells.first) > most:
            shift += 1
            cells = cells.merged(shift)
        n = len(cells.first)
        x = np.empty((n, 3))
        y = np.empty((n, 3))
        keep = np.ones((n, 3), bool)
        rising = cells.enter <= cells.leave
        x[:, 0] = y[:, 0] = np.nan
        x[:, 1], x[:, 2] = cells.first, cells.last
        y[:, 1] = np.where(rising, cells.low, cells.high)
        y[:, 2] = np.where(rising, cells.high, cells.low)
        keep[:, 0] = cells.gap
        keep[:, 2] = (cells.low != cells.high) | (cells.first != cells.last)
        if n:
            keep[0, 0] = False
        return x[keep], y[keep]


class _Cells(NamedTuple):
    """Columns as parallel arrays ``[n]``."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    enter: Floats
    leave: Floats
    low: Floats
    high: Floats
    gap: NDArray[np.bool_]

    @staticmethod
    def empty() -> _Cells:
        steps, values = np.empty(0, np.int64), np.empty(0)
        return _Cells(steps, steps, values, values, values, values, np.empty(0, bool))

    def joined(self, other: _Cells) -> _Cells:
        pairs: Any = zip(self, other, strict=True)
        return _Cells(*(np.concatenate(pair) for pair in pairs))

    def ordered(self, shift: int) -> _Cells:
        order = np.argsort(self.first >> shift, kind="stable")
        parts: Any = self
        return _Cells(*(part[order] for part in parts))

    def merged(self, shift: int) -> _Cells:
        """Returns the columns with those that fall into one range made one."""
        if len(self.first) == 0:
            return self
        key = self.first >> shift
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        ends = np.append(starts[1:], len(key)) - 1
        return _Cells(
            np.minimum.reduceat(self.first, starts),
            np.maximum.reduceat(self.last, starts),
            self.enter[starts],
            self.leave[ends],
            np.minimum.reduceat(self.low, starts),
            np.maximum.reduceat(self.high, starts),
            np.logical_or.reduceat(self.gap, starts),
        )
