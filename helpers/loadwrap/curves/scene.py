"""The one visual language of all figures: which line looks how.

Rank 0 in one colour, the other ranks in shades of another, their mean in bold black; a dashed
line at a resume, a dotted one at a prediction; names at the ends of lines, no legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .axes import Span
from .canvas import Box
from .columns import Columns
from .store import Series

# Okabe and Ito's vermilion and blues: told apart with every kind of colour vision.
RANK_0 = "#D55E00"
DARK, LIGHT = (0x0F, 0x5F, 0x9E), (0x7F, 0xBF, 0xEA)
INK, GREY, PALE, ALARM = "#000000", "#5A5A5A", "#E9E9E9", "#A6002F"
MOST_NAMED = 8


@dataclass(frozen=True)
class Stroke:
    """One line of a figure."""

    columns: Columns
    color: str
    width: float
    name: str = ""
    rank: int | None = None
    alpha: float = 1.0
    bold: bool = False


@dataclass(frozen=True)
class Frame:
    """Everything of a panel that stays while its lines grow.

    ``box`` holds the lines; words may reach to ``edge``, on its right.
    """

    box: Box
    edge: float
    x: Span
    y: Span
    y_label: str
    resumed_at: float | None = None
    predicted: float | None = None
    heading: str = ""

    def across(self, step: float) -> float:
        """Returns the x coordinate of a step."""
        left, _, right, _ = self.box
        return left + (step - self.x[0]) / (self.x[1] - self.x[0]) * (right - left)

    def up(self, value: float) -> float:
        """Returns the y coordinate of a value."""
        _, bottom, _, top = self.box
        return bottom + (value - self.y[0]) / (self.y[1] - self.y[0]) * (top - bottom)


def strokes_of(ranks: Mapping[int, Columns], mean: Columns | None) -> list[Stroke]:
    """Returns the lines of one run, in the order in which to draw them."""
    others = [rank for rank in sorted(ranks) if rank != 0]
    thin = 1.1 if len(others) < MOST_NAMED else 0.8
    strokes = [
        Stroke(ranks[rank], _shade(index, len(others)), thin, f"rank {rank}", rank)
        for index, rank in enumerate(others)
    ]
    if 0 in ranks:
        strokes.append(Stroke(ranks[0], RANK_0, 1.4, "rank 0", 0))
    if mean is not None and len(ranks) > 1:
        strokes.append(Stroke(mean, INK, 2.4, "mean", bold=True))
    return strokes


def extent(
    strokes: Sequence[Stroke], resumed_at: float | None, predicted: float | None
) -> tuple[Span, Span] | None:
    """Returns the ranges of steps and of values that a panel must show, None if empty."""
    steps: list[float] = [] if resumed_at is None else [resumed_at]
    values: list[float] = [] if predicted is None else [predicted]
    logged = False
    for columns in (stroke.columns for stroke in strokes):
        if columns.first_step is not None and columns.last_step is not None:
            logged = True
            steps += [columns.first_step, columns.last_step]
            if columns.end is not None:
                values += [columns.low, columns.high]
    if not logged:
        return None
    values = values or [0.0, 1.0]
    return (min(steps), max(steps)), (min(values), max(values))


def columns_of(series: Mapping[int, Series]) -> dict[int, Columns]:
    """Returns what a screen can show of each rank's series."""
    return {rank: one.columns() for rank, one in series.items()}


def _shade(index: int, count: int) -> str:
    share = index / (count - 1) if count > 1 else 0.0
    parts = (round(a + (b - a) * share) for a, b in zip(DARK, LIGHT, strict=True))
    return "#" + "".join(f"{part:02X}" for part in parts)
