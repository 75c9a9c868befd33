"""The one visual language of all figures: which line looks how, and where its name stands.

Rank 0 in one colour, the other ranks in shades of another, their mean in bold black; a dashed
line at a resume, a dotted one at a prediction; names at the ends of lines, no legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .axes import Span, ranges, spread_out, tick_labels, ticks
from .canvas import Box, Canvas
from .columns import Broken, Columns
from .store import Series

# Okabe and Ito's vermilion and blues: told apart with every kind of colour vision.
RANK_0 = "#D55E00"
DARK, LIGHT = (0x0F, 0x5F, 0x9E), (0x7F, 0xBF, 0xEA)
INK, GREY, PALE, ALARM = "#000000", "#5A5A5A", "#E9E9E9", "#A6002F"
MOST_NAMED = 8
_LABEL_SIZE, _LABEL_GAP = 11.0, 13.0


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
    """Everything of a panel that stays while its lines grow."""

    box: Box
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


def draw_frame(canvas: Canvas, frame: Frame) -> None:
    """Draws axes, grid, labels and the resume and prediction lines."""
    left, bottom, right, top = frame.box
    whole_y = ticks(*frame.y, max(int((top - bottom) / 40), 2))
    for value, words in zip(whole_y, tick_labels(whole_y), strict=True):
        y = frame.up(value)
        canvas.line([left, right], [y, y], PALE, width=0.8)
        canvas.text(left - 6, y, words, GREY, size=10, across="right")
    steps = ticks(*frame.x, max(int((right - left) / 75), 2), whole=True)
    for value, words in zip(steps, tick_labels(steps), strict=True):
        x = frame.across(value)
        canvas.line([x, x], [bottom, bottom - 4], GREY, width=0.8)
        canvas.text(x, bottom - 12, words, GREY, size=10, across="center")
    canvas.line([left, right], [bottom, bottom], GREY, width=0.8)
    canvas.text((left + right) / 2, bottom - 28, "step", INK, across="center")
    canvas.text(left - 46, (bottom + top) / 2, frame.y_label, INK, upright=True)
    if frame.heading:
        canvas.text(left, top + 10, frame.heading, INK, bold=True)
    if frame.predicted is not None:
        y = frame.up(frame.predicted)
        canvas.line([left, right], [y, y], INK, width=1.2, dashes=(1.2, 2.4))
    if frame.resumed_at is not None:
        x = frame.across(frame.resumed_at)
        canvas.line([x, x], [bottom, top], GREY, width=1.1, dashes=(5, 3))
        words = f"resumed at {frame.resumed_at:g}"
        wide = canvas.text_width(words, size=10)
        at = x + 5 if x + 5 + wide < right else x - 5 - wide
        canvas.text(at, top - 5, words, GREY, size=10)


def draw_strokes(canvas: Canvas, frame: Frame, strokes: Sequence[Stroke]) -> None:
    """Draws the lines, their names at their ends, and marks for what is not finite."""
    left, bottom, right, top = frame.box
    clip = (left - 3, bottom - 1, right + 3, top + 3)
    for stroke in strokes:
        steps, values = stroke.columns.vertices()
        x = left + (steps - frame.x[0]) / (frame.x[1] - frame.x[0]) * (right - left)
        y = bottom + (values - frame.y[0]) / (frame.y[1] - frame.y[0]) * (top - bottom)
        canvas.line(x, y, stroke.color, width=stroke.width, alpha=stroke.alpha, clip=clip)
        for index in _alone(x):
            canvas.dot(x[index], y[index], stroke.color, 1.2 + stroke.width)
    _draw_names(canvas, frame, strokes)
    _draw_broken(canvas, frame, strokes)


def _draw_names(canvas: Canvas, frame: Frame, strokes: Sequence[Stroke]) -> None:
    left, bottom, right, top = frame.box
    ends = [(s, *s.columns.end) for s in strokes if s.columns.end is not None]
    column = max((frame.across(step) for _, step, _ in ends), default=right) + 9
    names: list[tuple[float, str, str, bool]] = []
    crowd = [(s, frame.up(value)) for s, _, value in ends if s.rank not in (None, 0)]
    for group in _grouped(crowd):
        ranks = [stroke.rank for stroke, _ in group if stroke.rank is not None]
        words = rank_words(ranks)
        if canvas.text_width(words) > canvas.width - right - 10:
            words = f"{len(ranks)} ranks"
        middle = group[len(group) // 2]
        place = float(np.mean([y for _, y in group]))
        names.append((place, words, middle[0].color, False))
    for stroke, _, value in ends:
        if stroke.rank in (None, 0) and stroke.name:
            names.append((frame.up(value), stroke.name, stroke.color, stroke.bold))
    if frame.predicted is not None:
        words, y = f"predicted {frame.predicted:.3g}", frame.up(frame.predicted)
        if column > right - 60:
            names.append((y, words, INK, False))
        else:
            canvas.text(right + 8, y, words, INK)
    names.sort(key=lambda name: name[0])
    wishes = [min(max(name[0], bottom), top) for name in names]
    places = spread_out(wishes, _LABEL_GAP, bottom + 4, top - 2)
    for (_, words, color, bold), wish, place in zip(names, wishes, places, strict=True):
        wide = canvas.text_width(words, size=_LABEL_SIZE, bold=bold)
        if column < right:
            canvas.box((column - 2, place - 7, column + wide + 2, place + 7), "white", 0.8)
        if abs(place - wish) > 3:
            canvas.line([column - 7, column - 2], [wish, place], color, width=0.7)
        canvas.text(column, place, words, color, size=_LABEL_SIZE, bold=bold)


def _grouped(crowd: Sequence[tuple[Stroke, float]]) -> list[list[tuple[Stroke, float]]]:
    """Puts ranks whose lines end close together under one name."""
    if len(crowd) >= MOST_NAMED:
        return [list(crowd)]
    groups: list[list[tuple[Stroke, float]]] = []
    for one in sorted(crowd, key=lambda pair: pair[1]):
        if groups and one[1] - groups[-1][0][1] < _LABEL_GAP:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _draw_broken(canvas: Canvas, frame: Frame, strokes: Sequence[Stroke]) -> None:
    _, bottom, right, top = frame.box
    by_words: dict[tuple[str, str], list[int]] = {}
    for stroke in strokes:
        broken = stroke.columns.broken
        if broken is None or stroke.bold:
            continue
        x = frame.across(broken.first_step)
        y = bottom + 6
        canvas.line([x - 3, x + 3], [y - 3, y + 3], stroke.color, width=1.6)
        canvas.line([x - 3, x + 3], [y + 3, y - 3], stroke.color, width=1.6)
        whose = "" if stroke.rank is not None else stroke.name
        by_words.setdefault((whose, said(broken)), []).append(stroke.rank or 0)
    lines = [
        f"{whose or rank_words(ranks)}: {words}"
        for (whose, words), ranks in by_words.items()
    ]
    if len(lines) > 4:
        lines[3:] = [f"and {len(lines) - 3} more"]
    for index, words in enumerate(lines):
        wide = canvas.text_width(words, bold=True)
        y = top - 7 - 15 * index
        canvas.box((right - wide - 8, y - 7, right, y + 7), "white", 0.85)
        canvas.text(right - 4, y, words, ALARM, bold=True, across="right")


def said(broken: Broken) -> str:
    """Returns words such as ``"NaN from step 37"``."""
    if broken.to_the_end:
        return f"{broken.kind} from step {broken.first_step}"
    if broken.count == 1:
        return f"{broken.kind} at step {broken.first_step}"
    return f"{broken.count} records not finite, the first {broken.kind} at step {broken.first_step}"


def rank_words(ranks: Sequence[int]) -> str:
    """Returns ``"rank 3"`` or ``"ranks 1–3, 7"``."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def columns_of(series: Mapping[int, Series]) -> dict[int, Columns]:
    """Returns what a screen can show of each rank's series."""
    return {rank: one.columns() for rank, one in series.items()}


def _alone(x: np.ndarray) -> np.ndarray:
    """Returns the vertices that no line reaches: a single record, or one between two holes."""
    hole = np.isnan(np.concatenate([[np.nan], x, [np.nan]]))
    return np.flatnonzero(~hole[1:-1] & hole[:-2] & hole[2:])


def _shade(index: int, count: int) -> str:
    share = index / (count - 1) if count > 1 else 0.0
    parts = (round(a + (b - a) * share) for a, b in zip(DARK, LIGHT, strict=True))
    return "#" + "".join(f"{part:02X}" for part in parts)
