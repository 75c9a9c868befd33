"""The mean over ranks, exact, at once or as the records come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .store import Series, Steps, Values


def last_of_each_step(steps: Steps, values: Values) -> tuple[Steps, Values]:
    """Returns each step once, ascending, with the value logged last."""
    if len(steps) < 2 or bool(np.all(steps[1:] > steps[:-1])):
        return steps, values
    # A stable sort keeps the order of equal steps: the last of each group was logged last.
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    return ordered[last], values[order][last]


def mean_over_ranks(
    curves: Mapping[int, tuple[Steps, Values]], *, complete: bool = False
) -> tuple[Steps, Values]:
    """Returns the mean over the ranks that logged each step.

    Args:
        curves: ``{rank: (steps [n], values [n])}``.
        complete: Leave out steps which not all of the ranks have logged.
    """
    clean = [last_of_each_step(*curves[rank]) for rank in sorted(curves)]
    first = clean[0][0]
    if all(len(steps) == len(first) and np.array_equal(steps, first) for steps, _ in clean):
        return first, _mean([values for _, values in clean])
    all_steps = np.unique(np.concatenate([steps for steps, _ in clean]))
    total = np.zeros(len(all_steps))
    count = np.zeros(len(all_steps), np.int64)
    with np.errstate(all="ignore"):
        for steps, values in clean:
            at = np.searchsorted(all_steps, steps)
            total[at] += values
            count[at] += 1
        mean = total / count
    if complete:
        keep = count == len(clean)
        return all_steps[keep], mean[keep]
    return all_steps, mean


class RunningMean:
    """The mean over ranks, kept up to date at the cost of what is new."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}
        self._sizes: dict[int, int] = {}  # at the last look at everything
        self._in_order = True
        self._until: int | None = None
        self._mean: Series | None = None

    def update(self, series: Mapping[int, Series]) -> Series:
        """Takes in the new records and returns the mean over the complete steps."""
        if self._mean is None or series.keys() != self._taken.keys():
            return self._anew(series)
        if not series:
            return self._mean
        if not self._in_order:
            same = all(one.size == self._sizes[rank] for rank, one in series.items())
            return self._mean if same else self._anew(series)
        new = []
        for rank, one in series.items():
            steps = one.steps[self._taken[rank] :]
            if len(steps) == 0:
                continue
            ascending = bool(np.all(steps[1:] > steps[:-1]))
            if not ascending or (self._until is not None and steps[0] <= self._until):
                return self._anew(series)  # a restart went back: some means have changed
            new.append((steps, one.values[self._taken[rank] :]))
        if len(new) < len(series):
            return self._mean  # some rank has nothing new, so no further step is complete
        until = self._until = min(int(steps[-1]) for steps, _ in new)
        chunk = {}
        for (rank, taken), (steps, values) in zip(self._taken.items(), new, strict=True):
            n = int(np.searchsorted(steps, until, side="right"))
            chunk[rank] = steps[:n], values[:n]
            self._taken[rank] = taken + n
        self._mean.extend(*mean_over_ranks(chunk, complete=True))
        return self._mean

    def _anew(self, series: Mapping[int, Series]) -> Series:
        from .store import Series as NewSeries

        self._mean = NewSeries()
        self._taken = dict.fromkeys(series, 0)
        self._sizes = {rank: one.size for rank, one in series.items()}
        self._in_order = True
        if not series:
            return self._mean
        curves = {rank: (one.steps, one.values) for rank, one in series.items()}
        steps, values = mean_over_ranks(curves, complete=True)
        self._mean.extend(steps, values)
        self._until = int(steps[-1]) if len(steps) else None
        if len(steps):
            for rank, one in series.items():
                n = self._taken[rank] = int(np.flatnonzero(one.steps <= steps[-1])[-1]) + 1
                # A restart went back: later steps of before it lie among what counts as taken,
                # so nothing can be added at the end until the ranks have passed them.
                self._in_order &= not np.any(one.steps[:n] > steps[-1])
        return self._mean


def _mean(values: list[Values]) -> Values:
    with np.errstate(all="ignore"):
        total = values[0].copy()
        for one in values[1:]:
            total += one
        return total / len(values)
