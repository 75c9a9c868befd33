"""Draws a panel: what stays, and what grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .axes import tick_labels, ticks
from .canvas import Canvas
from .columns import Broken
from .names import draw_names, rank_words
from .scene import ALARM, GREY, INK, PALE, Frame, Stroke


def draw_frame(canvas: Canvas, frame: Frame) -> None:
    """Draws axes, grid, labels and the resume and prediction lines."""
    left, bottom, right, top = frame.box
    whole_y = ticks(*frame.y, max(int((top - bottom) / 40), 2))
    for value, words in zip(whole_y, tick_labels(whole_y), strict=True):
        y = frame.up(value)
        canvas.line([left, right], [y, y], PALE, width=0.8)
        canvas.text(left - 6, y, words, GREY, size=10, across="right")
    steps = ticks(*frame.x, max(int((right - left) / 60), 2), whole=True)
    for value, words in zip(steps, tick_labels(steps), strict=True):
        x = frame.across(value)
        canvas.line([x, x], [bottom, bottom - 4], GREY, width=0.8)
        canvas.text(x, bottom - 12, words, GREY, size=10, across="center")
    canvas.line([left, right], [bottom, bottom], GREY, width=0.8)
    canvas.text((left + right) / 2, bottom - 28, "step", INK, across="center")
    canvas.text(left - 48, (bottom + top) / 2, frame.y_label, INK, upright=True)
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


def draw_strokes(
    canvas: Canvas, frame: Frame, strokes: Sequence[Stroke], *, fine: bool = True
) -> None:
    """Draws the lines, their names at their ends, and marks for what is not finite.

    Args:
        canvas: Where to draw.
        frame: The panel, drawn before.
        strokes: The lines, from the lowest to the topmost.
        fine: Whether to spend time on detail that a passing picture does without.
    """
    left, bottom, right, top = frame.box
    clip = (left - 3, bottom - 1, right + 3, top + 3)
    # With many lines on top of one another, and in a band, fewer columns look the same.
    most = 512 if len(strokes) <= 16 else 256 if len(strokes) <= 32 else 128
    for stroke in strokes:
        dense = stroke.columns.dense
        steps, values = stroke.columns.vertices(None if fine else min(most, 256) if dense else most)
        x = left + (steps - frame.x[0]) / (frame.x[1] - frame.x[0]) * (right - left)
        y = bottom + (values - frame.y[0]) / (frame.y[1] - frame.y[0]) * (top - bottom)
        width = stroke.width * (0.6 if dense else 1.0)
        canvas.line(x, y, stroke.color, width=width, alpha=stroke.alpha, clip=clip)
        for index in _alone(x):
            canvas.dot(x[index], y[index], stroke.color, 1.2 + stroke.width)
    draw_names(canvas, frame, strokes)
    _draw_broken(canvas, frame, strokes)


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
    lines = [f"{whose or rank_words(ranks)}: {words}" for (whose, words), ranks in by_words.items()]
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


def _alone(x: NDArray[np.float64]) -> NDArray[np.intp]:
    """Returns the vertices that no line reaches: a single record, or one between two holes."""
    hole = np.isnan(np.concatenate([[np.nan], x, [np.nan]]))
    return np.flatnonzero(~hole[1:-1] & hole[:-2] & hole[2:])
