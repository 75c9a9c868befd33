"""Several runs side by side, in a figure and to the last bit."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .axes import padded, ranges
from .canvas import Canvas
from .columns import Columns
from .display import Handle
from .mean import last_of_each_step
from .scene import Frame, Stroke, draw_frame, draw_strokes, extent, strokes_of
from .store import Steps, Values

_WIDTH, _HEIGHT = 720, 320
_FINE = 2048
# Bold lines of several runs: none of these is rank 0's colour or another rank's.
_RUN_COLORS = ("#000000", "#CC3D8F", "#009E73", "#7A4FBF", "#8A6D00", "#5A5A5A")


class HasCurves(Protocol):
    """What a run must offer to be drawn or compared: ``Run`` does, and ``Curves``."""

    @property
    def metrics(self) -> tuple[str, ...]: ...

    def curve(self, metric: str) -> dict[int, tuple[Steps, Values]]: ...

    def mean(self, metric: str) -> tuple[Steps, Values]: ...


class Picture:
    """A finished figure. As the last value of a cell it shows nothing more."""

    def __init__(self, png: bytes, words: str, alt: str, size: tuple[int, int]) -> None:
        self._png, self._words, self._alt, self._size = png, words, alt, size
        self._shown_in = self._show()

    def png(self) -> bytes:
        """Returns the figure as PNG."""
        return self._png

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the figure as a PNG file and returns its path."""
        target = Path(path)
        target.write_bytes(self._png)
        return target

    def __repr__(self) -> str:
        return self._words

    def _ipython_display_(self) -> None:
        # plot_runs has shown it already in this cell; in a later cell it is asked for again.
        if _cell() != self._shown_in:
            self._shown_in = self._show()

    def _show(self) -> int | None:
        Handle(self._words, *self._size).show(self._png, self._alt)
        return _cell()


def plot_runs(
    runs: Mapping[str, HasCurves],
    metric: str = "loss",
    *,
    layout: str = "overlay",
    resumed_at: float | Mapping[str, float] | None = None,
    predicted: float | Mapping[str, float] | None = None,
) -> Picture:
    """Draws one metric of several runs in one figure.

    Args:
        runs: The runs by the name that the figure gives them.
        metric: The metric to draw.
        layout: ``"overlay"`` draws the runs' means in one panel, their ranks faintly behind;
            ``"side"`` gives each run a panel, all with the same axes. One run alone is drawn
            like the live figure.
        resumed_at: The step of a dashed vertical line; with ``"side"`` also one a run, by name.
        predicted: The value of a dotted horizontal line; with ``"side"`` also one a run.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        TypeError: If ``runs`` is not a dict of runs.
        ValueError: If there is no run, a run lacks the metric, or the layout is unknown.

    Example:
        >>> from loadwrap import plot_runs
        >>> from loadwrap.curves.store import Curves
        >>> healthy, broken = Curves(), Curves()
        >>> healthy.extend(0, "loss", [0, 1], [0.3, 0.2])
        >>> broken.extend(0, "loss", [0, 1], [1.7, 1.5])
        >>> plot_runs({"healthy": healthy, "broken": broken}, "loss")
        <figure of loss: healthy, broken>
    """
    if not isinstance(runs, Mapping) or not all(hasattr(run, "curve") for run in runs.values()):
        raise TypeError('plot_runs() needs runs by name, such as {"healthy": run1, "broken": run2}.')
    if not runs:
        raise ValueError("plot_runs() needs at least one run.")
    if layout not in ("overlay", "side"):
        raise ValueError(f'layout must be "overlay" or "side", not {layout!r}.')
    if layout == "overlay" and len(runs) > 1:
        panels = [("", _overlaid(runs, metric))]
    else:
        panels = [(str(name), _ranks_of(run, name, metric)) for name, run in runs.items()]
    canvas, size = _draw(panels, metric, resumed_at, predicted)
    names = ", ".join(str(name) for name in runs)
    words = f"<figure of {metric}: {names}>"
    return Picture(canvas.png(small=True), words, f"{metric} of the runs {names}", size)


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
    first, second = _curve(run, "the first run", metric), _curve(other, "the second run", metric)
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


def _curve(run: HasCurves, name: object, metric: str) -> dict[int, tuple[Steps, Values]]:
    try:
        return run.curve(metric)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _columns(steps: Steps, values: Values) -> Columns:
    columns = Columns(_FINE)
    columns.add(steps, values)
    return columns


def _ranks_of(run: HasCurves, name: object, metric: str) -> list[Stroke]:
    curves = _curve(run, f"run {name!r}", metric)
    ranks = {rank: _columns(*curve) for rank, curve in curves.items()}
    return strokes_of(ranks, _columns(*run.mean(metric)))


def _overlaid(runs: Mapping[str, HasCurves], metric: str) -> list[Stroke]:
    faint, bold = [], []
    for index, (name, run) in enumerate(runs.items()):
        color = _RUN_COLORS[index % len(_RUN_COLORS)]
        curves = _curve(run, f"run {name!r}", metric)
        if len(curves) > 1:
            faint += [
                Stroke(_columns(*curve), color, 0.8, alpha=0.35) for curve in curves.values()
            ]
        bold.append(Stroke(_columns(*run.mean(metric)), color, 2.4, str(name), bold=True))
    return faint + bold


def _draw(
    panels: Sequence[tuple[str, list[Stroke]]], metric: str, resumed_at: Any, predicted: Any
) -> tuple[Canvas, tuple[int, int]]:
    """Draws the panels, three a row, all on the same axes."""
    across = min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    size = _WIDTH, _HEIGHT if down == 1 else 260 * down
    canvas = Canvas(*size, scale=2)
    chosen = [(_of(resumed_at, name), _of(predicted, name)) for name, _ in panels]
    spans = [
        span
        for (_, strokes), (resume, height) in zip(panels, chosen, strict=True)
        if (span := extent(strokes, resume, height)) is not None
    ]
    x = padded(min(s[0][0] for s in spans), max(s[0][1] for s in spans), 0.015)
    y = padded(min(s[1][0] for s in spans), max(s[1][1] for s in spans))
    for index, (name, strokes) in enumerate(panels):
        column, row = index % across, index // across
        left, bottom = _WIDTH / across * column, size[1] / down * (down - 1 - row)
        margin = 104 if across == 1 else 72
        box = (
            left + (62 if column == 0 else 50),
            bottom + 44,
            left + _WIDTH / across - margin,
            bottom + size[1] / down - 28,
        )
        frame = Frame(box, x, y, metric if column == 0 else "", *chosen[index], heading=name)
        draw_frame(canvas, frame)
        draw_strokes(canvas, frame, strokes)
    return canvas, size


def _of(choice: Any, name: str) -> float | None:
    """Returns one panel's line: the same for all, or its own by the name of the run."""
    return choice.get(name) if isinstance(choice, Mapping) else choice


def _cell() -> int | None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "execution_count", None)
