"""Several runs side by side, in a figure and to the last bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .axes import padded
from .canvas import Canvas
from .columns import Columns
from .difference import HasCurves, curve_of, first_difference
from .display import Picture
from .paint import draw_frame, draw_strokes
from .scene import Frame, Stroke, extent, strokes_of
from .store import Steps, Values

__all__ = ["first_difference", "plot_runs"]

_WIDTH, _HEIGHT = 720, 320
_FINE = 2048
# Bold lines of several runs: none of these is rank 0's colour or another rank's.
_RUN_COLORS = ("#000000", "#CC3D8F", "#009E73", "#7A4FBF", "#8A6D00", "#5A5A5A")


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
        raise TypeError(
            'plot_runs() needs runs by name, such as {"healthy": run1, "broken": run2}.'
        )
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


def _columns(steps: Steps, values: Values) -> Columns:
    columns = Columns(_FINE)
    columns.add(steps, values)
    return columns


def _ranks_of(run: HasCurves, name: object, metric: str) -> list[Stroke]:
    curves = curve_of(run, f"run {name!r}", metric)
    ranks = {rank: _columns(*curve) for rank, curve in curves.items()}
    return strokes_of(ranks, _columns(*run.mean(metric)))


def _overlaid(runs: Mapping[str, HasCurves], metric: str) -> list[Stroke]:
    faint, bold = [], []
    for index, (name, run) in enumerate(runs.items()):
        color = _RUN_COLORS[index % len(_RUN_COLORS)]
        curves = curve_of(run, f"run {name!r}", metric)
        if len(curves) > 1:
            faint += [Stroke(_columns(*curve), color, 0.8, alpha=0.35) for curve in curves.values()]
        bold.append(Stroke(_columns(*run.mean(metric)), color, 2.4, str(name), bold=True))
    return faint + bold


def _draw(
    panels: Sequence[tuple[str, list[Stroke]]], metric: str, resumed_at: Any, predicted: Any
) -> tuple[Canvas, tuple[int, int]]:
    """Draws the panels, two or three a row, all on the same axes."""
    across = len(panels) if len(panels) <= 3 else 2 if len(panels) == 4 else 3
    down = math.ceil(len(panels) / across)
    heading = 26 if panels[0][0] else 12
    tall = (300 if down == 1 else 250) if across < 3 else 230
    size = _WIDTH, tall * down
    canvas = Canvas(*size, scale=2)
    chosen = [(_of(resumed_at, name), _of(predicted, name)) for name, _ in panels]
    found = [extent(strokes, *own) for (_, strokes), own in zip(panels, chosen, strict=True)]
    spans = [span for span in found if span is not None]
    x = padded(min(s[0][0] for s in spans), max(s[0][1] for s in spans), 0.015)
    y = padded(min(s[1][0] for s in spans), max(s[1][1] for s in spans))
    left, margin = 62, _margin(canvas, panels)
    # Every panel is as wide; only the first of a row has the name of the metric beside it.
    wide = (_WIDTH - left - (across - 1) * 44) / across
    for index, (name, strokes) in enumerate(panels):
        start = left + (index % across) * (wide + 44)
        bottom = tall * (down - 1 - index // across)
        box = (start, bottom + 44.0, start + wide - margin, bottom + tall - float(heading))
        label = metric if index % across == 0 else ""
        frame = Frame(box, start + wide - 2, x, y, label, *chosen[index], heading=name)
        draw_frame(canvas, frame)
        draw_strokes(canvas, frame, strokes)
    return canvas, size


def _margin(canvas: Canvas, panels: Sequence[tuple[str, list[Stroke]]]) -> float:
    """Returns the room that the names at the ends of the lines need."""
    names = [(stroke.name, stroke.bold) for _, strokes in panels for stroke in strokes]
    widest = max(canvas.text_width(words, bold=bold) for words, bold in names)
    return min(max(widest, 66.0), 180.0) + 14


def _of(choice: Any, name: str) -> float | None:
    """Returns one panel's line: the same for all, or its own by the name of the run."""
    return choice.get(name) if isinstance(choice, Mapping) else choice
