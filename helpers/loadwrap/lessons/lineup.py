"""The figure of lesson 02: one number of every rank, run under run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..curves.display import Picture

__all__ = ["plot_lineup"]

_WIDTH, _ROW, _FOOT, _HEAD = 720, 46.0, 46.0, 26.0
_RIGHT = _WIDTH - 30.0


def plot_lineup(
    firsts: Mapping[str, Mapping[int, float]],
    predicted: float | None = None,
    *,
    metric: str = "first loss",
) -> Picture:
    """Draws one number of every rank of several runs: a row for each run, a dot for each rank.

    It looks as every figure of a run does: rank 0 in its colour, the other ranks in shades of
    another, the mean in black, a prediction dotted.

    Args:
        firsts: The number by rank, by the name of the run.
        predicted: Where a dotted vertical line is drawn.
        metric: What the number is.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        ValueError: If there is no run, or one has no rank.

    Example:
        >>> plot_lineup({"right": {0: 0.1, 1: 0.1}, "wrong": {0: 0.1, 1: 2.3}})
        <figure of first loss by rank: right, wrong>
    """
    if not firsts or not all(firsts.values()):
        raise ValueError("plot_lineup() needs at least one run, and a number of each of its ranks.")
    from ..curves.axes import padded, tick_labels, ticks
    from ..curves.canvas import Canvas
    from ..curves.display import Picture
    from ..curves.scene import GREY, INK, PALE, RANK_0

    every = [value for losses in firsts.values() for value in losses.values()]
    low, high = padded(min(0.0, *every), max(*every, predicted or 0.0), 0.04)
    height = round(_FOOT + _ROW * len(firsts) + _HEAD)
    canvas = Canvas(_WIDTH, height, scale=2)
    left = 24 + max(canvas.text_width(str(name), size=12, bold=True) for name in firsts)

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (_RIGHT - left)

    top = height - _HEAD
    marks = ticks(low, high, 6)
    for value, words in zip(marks, tick_labels(marks), strict=True):
        canvas.line([across(value)] * 2, [_FOOT, top], PALE, width=0.8)
        canvas.text(across(value), _FOOT - 12, words, GREY, size=10, across="center")
    canvas.text((left + _RIGHT) / 2, 14, metric, INK, across="center")
    if predicted is not None:
        at = [across(predicted)] * 2
        canvas.line(at, [_FOOT, top], INK, width=1.2, dashes=(1.2, 2.4))
        canvas.text(at[0], top + 12, "predicted mean", INK, size=10, across="center")
    for row, (name, losses) in enumerate(firsts.items()):
        middle = top - _ROW * (row + 0.5)
        canvas.line([left, _RIGHT], [middle - _ROW / 2] * 2, PALE, width=0.8)
        canvas.text(left - 12, middle, str(name), INK, size=12, across="right")
        mean = across(sum(losses.values()) / len(losses))
        canvas.line([mean, mean], [middle - 17, middle + 17], INK, width=2.4)
        colors = _colors(losses)
        for index, (rank, loss) in enumerate(sorted(losses.items())):
            # One under the other, so that equal ones are all seen.
            down = (index - (len(losses) - 1) / 2) * min(9.0, 30 / len(losses))
            canvas.dot(across(loss), middle - down, colors[rank], 4)
    first = next(iter(firsts.values()))
    if 0 in first:
        canvas.text(left, 14, "rank 0", RANK_0, size=10, bold=True)
        others = [rank for rank in first if rank]
        if others:
            canvas.text(left + 48, 14, "other ranks", _colors(first)[others[0]], size=10)
            canvas.text(left + 118, 14, "mean", INK, size=10, bold=True)
    words = f"{metric} by rank: {', '.join(map(str, firsts))}"
    alt = f"{words}; a row for each run, a dot for each rank, a black bar for their mean"
    return Picture(canvas.png(small=True), f"<figure of {words}>", alt, (_WIDTH, height))


def _colors(ranks: Mapping[int, float]) -> dict[int | None, str]:
    """Returns each rank's colour, as in the figures of curves."""
    from ..curves.columns import Columns
    from ..curves.scene import strokes_of

    strokes = strokes_of({rank: Columns(2) for rank in ranks}, None)
    return {stroke.rank: stroke.color for stroke in strokes}
