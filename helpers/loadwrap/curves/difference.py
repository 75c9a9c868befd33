"""The first step at which two runs differ, to the last bit."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from .axes import ranges
from .mean import last_of_each_step
from .store import Steps, Values


class HasCurves(Protocol):
    """What a run must offer to be drawn or compared: ``Run`` does, and ``Curves``."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics."""

    def curve(self, metric: str) -> dict[int, tuple[Steps, Values]]:
        """Returns steps and values ``[n]`` by rank."""

    def mean(self, metric: str) -> tuple[Steps, Values]:
        """Returns the mean over ranks, steps and values ``[n]``."""


def first_difference(
    run: HasCurves, other: HasCurves, metric: str = "loss"
) -> tuple[int, int, float] | None:
    """Finds the first step at which two runs logged different values.

    Rank by rank, over the steps that both runs span: from the later start to the earlier end,
    so that a resumed run can be held against the tail of an uninterrupted one. Values must be
    equal to the last bit; NaN equals NaN. Of a step logged twice (after a restart) the last
    record counts.

    Args:
        run: A run.
        other: Another.
        metric: The metric to compare.

    Returns:
        The step, the rank and ``other``'s value minus ``run``'s, at the smallest step at which
        any rank differs (the lowest such rank); None if all are equal. The difference is NaN
        where only one of them is NaN, or logged that step at all.

    Raises:
        ValueError: If a run lacks the metric, the ranks are not the same, or a rank's two
            curves share no step, so that there is nothing to compare.

    Example:
        >>> from loadwrap import first_difference
        >>> from loadwrap.curves.store import Curves
        >>> run, other = Curves(), Curves()
        >>> run.extend(0, "loss", [0, 1, 2], [2.0, 1.0, 0.5])
        >>> other.extend(0, "loss", [1, 2], [1.0, 0.75])
        >>> first_difference(run, other, "loss")
        (2, 0, 0.25)
    """
    first, second = (
        curve_of(run, "the first run", metric),
        curve_of(other, "the second run", metric),
    )
    if first.keys() != second.keys():
        raise ValueError(
            f"the runs were logged by different ranks ({ranges(list(first))} and "
            f"{ranges(list(second))}): only runs of the same ranks can be compared."
        )
    found = []
    for rank in sorted(first):
        difference = _first_of_rank(rank, first[rank], second[rank])
        if difference is not None:
            found.append(difference)
    return min(found, key=lambda one: one[:2], default=None)


def _first_of_rank(
    rank: int, one: tuple[Steps, Values], other: tuple[Steps, Values]
) -> tuple[int, int, float] | None:
    steps1, values1 = last_of_each_step(*one)
    steps2, values2 = last_of_each_step(*other)
    start, end = max(steps1[0], steps2[0]), min(steps1[-1], steps2[-1])
    if start > end:
        raise ValueError(
            f"the runs share no step: rank {rank} logged {steps1[0]} to {steps1[-1]} in one and "
            f"{steps2[0]} to {steps2[-1]} in the other."
        )
    in1, in2 = (steps1 >= start) & (steps1 <= end), (steps2 >= start) & (steps2 <= end)
    steps1, values1, steps2, values2 = steps1[in1], values1[in1], steps2[in2], values2[in2]
    lonely = np.setxor1d(steps1, steps2, assume_unique=True)
    shared, at1, at2 = np.intersect1d(steps1, steps2, assume_unique=True, return_indices=True)
    values1, values2 = values1[at1], values2[at2]
    unequal = (values1 != values2) & ~(np.isnan(values1) & np.isnan(values2))
    where = np.flatnonzero(unequal)
    if len(where) and (not len(lonely) or shared[where[0]] < lonely[0]):
        index = where[0]
        return int(shared[index]), rank, float(values2[index]) - float(values1[index])
    if len(lonely):
        return int(lonely[0]), rank, math.nan
    return None


def curve_of(run: HasCurves, name: object, metric: str) -> dict[int, tuple[Steps, Values]]:
    """Returns a run's curves by rank, or says in which run the metric is missing."""
    try:
        return run.curve(metric)
    except KeyError as error:
        raise ValueError(f"{name}: {error}") from None
