"""The names of lines, written where the lines end instead of in a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .axes import ranges, spread_out
from .canvas import Canvas
from .scene import INK, MOST_NAMED, Frame, Stroke

_GAP = 13.0
_SAME_PLACE = 60.0  # about as wide as a name: nearer, two names would cover one another


@dataclass(frozen=True)
class _Name:
    """A name at the height of the end of its line."""

    y: float
    words: str
    color: str
    bold: bool = False


def draw_names(canvas: Canvas, frame: Frame, strokes: Sequence[Stroke]) -> None:
    """Writes each line's name at its end, moved apart where names would collide."""
    _, _, right, _ = frame.box
    columns = _by_end(frame, strokes)
    if frame.predicted is not None:
        words = f"predicted {frame.predicted:.3g}"
        y, wide = frame.up(frame.predicted), canvas.text_width(words)
        if right + 8 + wide > frame.edge:
            canvas.box((right - wide - 4, y + 2, right, y + 16), "white", 0.8)
            canvas.text(right - 3, y + 9, words, INK, across="right")
        elif columns and columns[0][0] + 70 > right:
            columns[0][1].append(_Name(y, words, INK))
        else:
            canvas.text(right + 8, y, words, INK)
    for number, (x, names) in enumerate(columns):
        names = sorted(names, key=lambda name: name.y)
        if number == 0:
            _write_column(canvas, frame, x + 9, names)
        else:
            _write_before(canvas, frame, x, names)


def rank_words(ranks: Sequence[int]) -> str:
    """Returns ``"rank 3"`` or ``"ranks 1–3, 7"``."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def _by_end(frame: Frame, strokes: Sequence[Stroke]) -> list[tuple[float, list[_Name]]]:
    """Returns the names by where their lines end, from the right: most end together."""
    right = frame.box[2]
    ends = [(frame.across(s.columns.end[0]), s) for s in strokes if s.columns.end is not None]
    # Names beside the axes all begin at one place, clear of the frame.
    ends = [(x if x < right - 25 else right - 2, stroke) for x, stroke in ends]
    columns: list[tuple[float, list[Stroke]]] = []
    for x, stroke in sorted(ends, key=lambda end: -end[0]):
        if not columns or columns[-1][0] - x > _SAME_PLACE:
            columns.append((x, []))
        columns[-1][1].append(stroke)
    return [(x, _names_of(frame, group)) for x, group in columns]


def _names_of(frame: Frame, strokes: Sequence[Stroke]) -> list[_Name]:
    named = [(s, frame.up(s.columns.end[1])) for s in strokes if s.columns.end is not None]
    names = [
        _Name(y, stroke.name, stroke.color, stroke.bold)
        for stroke, y in named
        if stroke.rank in (None, 0) and stroke.name
    ]
    others = sorted((pair for pair in named if pair[0].rank), key=lambda pair: pair[1])
    groups: list[list[tuple[Stroke, float]]] = []
    for one in others:
        # Ranks that end close together share one name, and many ranks always do.
        crowded = groups and (one[1] - groups[-1][0][1] < _GAP or len(others) >= MOST_NAMED)
        if crowded:
            groups[-1].append(one)
        else:
            groups.append([one])
    for group in groups:
        ranks = [stroke.rank for stroke, _ in group if stroke.rank is not None]
        middle = group[len(group) // 2][0]
        names.append(_Name(float(np.mean([y for _, y in group])), rank_words(ranks), middle.color))
    return names


def _write_before(canvas: Canvas, frame: Frame, x: float, names: Sequence[_Name]) -> None:
    """Writes names above the ends of their lines: where these end, others may go on."""
    _, bottom, _, top = frame.box
    wishes = [min(max(name.y + _GAP, bottom), top) for name in names]
    places = spread_out(wishes, _GAP, bottom + 8, top - 4)
    for name, place in zip(names, places, strict=True):
        wide = canvas.text_width(name.words, bold=name.bold)
        canvas.box((x - wide - 4, place - 7, x, place + 7), "white", 0.7)
        canvas.text(x - 2, place, name.words, name.color, bold=name.bold, across="right")


def _write_column(canvas: Canvas, frame: Frame, x: float, names: Sequence[_Name]) -> None:
    _, bottom, right, top = frame.box
    wishes = [min(max(name.y, bottom), top) for name in names]
    places = spread_out(wishes, _GAP, bottom + 8, top - 4)
    for name, wish, place in zip(names, wishes, places, strict=True):
        words = canvas.fitting(name.words, frame.edge - x, bold=name.bold)
        wide = canvas.text_width(words, bold=name.bold)
        if x < right:
            canvas.box((x - 2, place - 7, x + wide + 2, place + 7), "white", 0.7)
        if abs(place - wish) > 3:
            canvas.line([x - 7, x - 2], [wish, place], name.color, width=0.7)
        canvas.text(x, place, words, name.color, bold=name.bold)
