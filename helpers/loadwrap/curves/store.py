"""All records of a run, in memory: per metric and rank two arrays that grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import Columns

Steps = NDArray[np.int64]
Values = NDArray[np.float64]


class Series:
    """Steps and values that grow at the end; 16 bytes a record."""

    def __init__(self) -> None:
        self.size = 0
        self._steps: Steps = np.empty(64, np.int64)
        self._values: Values = np.empty(64, np.float64)
        self._columns: Columns | None = None
        self._drawn = 0

    @property
    def steps(self) -> Steps:
        """The steps, int64 ``[size]``: a view, valid until the next :meth:`extend`."""
        return self._steps[: self.size]

    @property
    def values(self) -> Values:
        """The values, float64 ``[size]``: a view like :attr:`steps`."""
        return self._values[: self.size]

    def extend(self, steps: Sequence[int] | Steps, values: Sequence[float] | Values) -> None:
        """Appends records; amortised constant cost for each."""
        size = self.size + len(steps)
        if size > len(self._steps):
            room = max(size, 2 * len(self._steps))
            self._steps = np.concatenate([self.steps, np.empty(room - self.size, np.int64)])
            self._values = np.concatenate([self.values, np.empty(room - self.size, np.float64)])
        self._steps[self.size : size] = steps
        self._values[self.size : size] = values
        self.size = size

    def columns(self) -> Columns:
        """Returns what a screen can show of the series, brought up to date."""
        if self._columns is None:
            self._columns = Columns()
        if self._drawn < self.size:
            self._columns.add(self.steps[self._drawn :], self.values[self._drawn :])
            self._drawn = self.size
        return self._columns


class Curves:
    """The records of one run as curves.

    Example:
        >>> from loadwrap.curves.store import Curves
        >>> curves = Curves()
        >>> curves.extend(0, "loss", [0, 1], [2.0, 1.0])
        >>> curves.extend(1, "loss", [0, 1], [4.0, 1.0])
        >>> curves.mean("loss")[1].tolist()
        [3.0, 1.0]
    """

    def __init__(self) -> None:
        self.headers: dict[int, dict[str, Any]] = {}
        self.records = 0
        self.changes = 0
        self._series: dict[str, dict[int, Series]] = {}
        self._last: dict[int, int] = {}
        self._means: dict[str, Any] = {}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics logged so far, sorted."""
        return tuple(sorted(self._series))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have logged anything."""
        return tuple(sorted(self._last))

    @property
    def world_size(self) -> int | None:
        """The world size that the ranks themselves report, if any has."""
        sizes = [header.get("world_size") for header in self.headers.values()]
        return max((size for size in sizes if isinstance(size, int)), default=None)

    @property
    def ended(self) -> bool:
        """Whether every rank of the job has said that its process came to its end."""
        size = self.world_size
        ended = [rank for rank, header in self.headers.items() if "ended_ns" in header]
        return size is not None and len(ended) >= size

    @property
    def last_step(self) -> int | None:
        """The furthest of the steps that the ranks logged last; after a restart it goes back."""
        return max(self._last.values(), default=None)

    def curve(self, metric: str) -> dict[int, tuple[Steps, Values]]:
        """Returns one metric's records by rank, in the order in which they were logged.

        Args:
            metric: The name, such as ``"loss"``.

        Returns:
            ``{rank: (steps int64 [n], values float64 [n])}``, ranks in order; copies.

        Raises:
            UnknownMetric: If no rank logged that metric (a KeyError).
        """
        series = self.series(metric)
        if not series:
            raise UnknownMetric(metric, self.metrics)
        return {rank: (one.steps.copy(), one.values.copy()) for rank, one in series.items()}

    def mean(self, metric: str) -> tuple[Steps, Values]:
        """Returns the mean over the ranks that logged each step.

        Args:
            metric: The name, such as ``"loss"``.

        Returns:
            Steps int64 ``[n]``, each once and ascending, and the means float64 ``[n]``, summed
            in the order of the ranks. Of a step logged twice by a rank (after a restart) the
            last record counts.

        Raises:
            UnknownMetric: If no rank logged that metric (a KeyError).
        """
        from .mean import mean_over_ranks

        return mean_over_ranks(self.curve(metric))

    def series(self, metric: str) -> dict[int, Series]:
        """Returns the growing arrays of a metric by rank, empty if there are none."""
        return dict(sorted(self._series.get(metric, {}).items()))

    def live_mean(self, metric: str) -> Series:
        """Returns the mean over the steps that all ranks which log the metric have logged."""
        from .mean import RunningMean

        mean = self._means.setdefault(metric, RunningMean())
        return mean.update(self.series(metric))

    def extend(
        self,
        rank: int,
        metric: str,
        steps: Sequence[int] | Steps,
        values: Sequence[float] | Values,
    ) -> None:
        """Appends records of one metric of one rank.

        Raises:
            OverflowError: If a step does not fit into 64 bits or a value into a float.
        """
        new_steps, new_values = np.asarray(steps, np.int64), np.asarray(values, np.float64)
        if len(new_steps) == 0:
            return
        self.changes += 1
        by_rank = self._series.setdefault(metric, {})
        if rank not in by_rank:
            by_rank[rank] = Series()
        by_rank[rank].extend(new_steps, new_values)
        self._last[rank] = int(new_steps[-1])

    def forget(self, rank: int) -> None:
        """Forgets what a rank logged, because its file was replaced by another."""
        self.changes += 1
        for by_rank in self._series.values():
            by_rank.pop(rank, None)
        self._series = {name: by_rank for name, by_rank in self._series.items() if by_rank}
        self._means.clear()
        self._last.pop(rank, None)
        self.headers.pop(rank, None)


class UnknownMetric(KeyError):
    """Nobody logged that metric; the message lists those there are."""

    def __init__(self, metric: str, known: Iterable[str]) -> None:
        super().__init__(metric)
        names = ", ".join(known)
        there = f"it logged: {names}." if names else "nothing has been logged."
        self._sentence = f"there is no metric {metric!r} in this run; {there}"

    def __str__(self) -> str:  # KeyError would show it in quotes
        return self._sentence

    def _render_traceback_(self) -> list[str]:  # a notebook shows the sentence alone
        return [f"{type(self).__name__}: {self}"]
