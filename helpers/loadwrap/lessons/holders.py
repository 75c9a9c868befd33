"""The figure of lessons 03 and 04: who holds which weights, and when."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..curves.canvas import Canvas
    from ..curves.display import Picture

__all__ = ["plot_holders"]

Held = Mapping[str, Mapping[str, Mapping[int, Hashable]]]
_ROW, _GAP, _MARGIN = 40.0, 12.0, 58.0


def plot_holders(orders: Held, names: Mapping[Hashable, str] | None = None) -> Picture:
    """Draws who holds which weights at each moment: a row for each rank, time to the right.

    Equal values have the same letter and the same colour, in every panel.

    Args:
        orders: ``{order: {moment: {rank: value}}}``, a panel for each order. A value is anything
            that is equal where the weights are, such as a fingerprint; None draws an empty place.
        names: ``{value: name}``: what to call some of the values.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        TypeError: If ``orders`` is not nested like that, or a value cannot be compared.
        ValueError: If there is nothing to draw.

    Example:
        >>> plot_holders({"wrap": {"built": {0: 17, 1: 4}, "wrapped": {0: 17, 1: 17}}})
        <figure of who holds which weights: wrap>
    """
    sheet = _Sheet(orders, names or {})
    from ..curves.display import Picture

    words = f"<figure of who holds which weights: {', '.join(map(str, orders))}>"
    canvas, size = _draw(sheet)
    return Picture(canvas.png(small=True), words, sheet.in_words(), size)


@dataclass(frozen=True)
class _Look:
    letter: str
    fill: str
    name: str


class _Sheet:
    """What is to be drawn, once it is known to make sense."""

    def __init__(self, orders: Held, names: Mapping[Hashable, str]) -> None:
        _check(orders, names)
        from .shapes import FILLS, letter

        self.orders = orders
        self.ranks = sorted({r for o in orders.values() for m in o.values() for r in m})
        cells = [v for o in orders.values() for m in o.values() for _, v in sorted(m.items())]
        seen = [value for value in dict.fromkeys(cells) if value is not None]
        # What has a name gets the first colours, whatever else there is.
        first = [value for value in names if value in seen]
        fills = {v: FILLS[i % len(FILLS)] for i, v in enumerate(dict.fromkeys([*first, *seen]))}
        self.looks = {
            value: _Look(letter(index), fills[value], str(names.get(value, "")))
            for index, value in enumerate(seen)
        }

    def in_words(self) -> str:
        """Returns the whole content as a sentence for each panel."""
        said = []
        for order, moments in self.orders.items():
            parts = [
                f"{moment}: " + ", ".join(f"rank {r} {self._word(v)}" for r, v in sorted(h.items()))
                for moment, h in moments.items()
            ]
            said.append(f"{order}. " + "; ".join(parts) + ".")
        return "Who holds which weights, by moment. " + " ".join(said)

    def _word(self, value: Hashable) -> str:
        if value is None:
            return "nothing"
        look = self.looks[value]
        return f"{look.letter} ({look.name})" if look.name else look.letter


def _check(orders: Held, names: Mapping[Hashable, str]) -> None:
    shape = (
        "plot_holders() needs {order: {moment: {rank: value}}}, "
        'such as {"wrap": {"built": {0: 17, 1: 4}}}'
    )
    if not isinstance(orders, Mapping) or not isinstance(names, Mapping):
        raise TypeError(f"{shape}.")
    if not orders:
        raise ValueError("plot_holders() needs at least one order.")
    for order, moments in orders.items():
        if not isinstance(moments, Mapping):
            raise TypeError(f"{shape}; {order!r} is no dict of moments.")
        if not moments:
            raise ValueError(f"plot_holders(): the order {order!r} has no moment.")
        for moment, held in moments.items():
            if not isinstance(held, Mapping) or not held:
                raise TypeError(f"{shape}; {moment!r} of {order!r} is no dict of ranks.")
            for rank, value in held.items():
                if isinstance(rank, bool) or not isinstance(rank, int):
                    raise TypeError(f"{shape}; {rank!r} in {moment!r} is no rank.")
                try:
                    hash(value)
                except TypeError:
                    raise TypeError(
                        f"plot_holders(): what rank {rank} holds in {moment!r} is a "
                        f"{type(value).__name__}; give something that can be hashed, such as a "
                        "fingerprint or a tuple."
                    ) from None


def _draw(sheet: _Sheet) -> tuple[Canvas, tuple[int, int]]:
    from ..curves.canvas import Canvas
    from .shapes import WIDTH, in_lines

    ruler = Canvas(1, 1, scale=2)  # words must be measured before the height is known
    across, room = _columns(sheet, ruler)
    most = max(len(moments) for moments in sheet.orders.values())
    column = min(room / most, 140)
    inside = _names_fit(sheet, ruler, column - _GAP - 6)
    titles = [in_lines(ruler, str(o), room, size=12, bold=True) for o in sheet.orders]
    labels = [in_lines(ruler, str(m), column - 4) for o in sheet.orders.values() for m in o]
    key = [] if inside else _key(sheet, ruler)
    high = max(map(len, titles)) * 16 + 12
    low = max(map(len, labels)) * 13 + 16
    tall = high + len(sheet.ranks) * _ROW + low + 10
    down = math.ceil(len(sheet.orders) / across)
    size = WIDTH, round(down * tall + (len(key) * 22 + 8 if key else 0))
    canvas = Canvas(*size, scale=2)
    for index, moments in enumerate(sheet.orders.values()):
        left = _MARGIN + (index % across) * (room + _GAP)
        top = size[1] - (index // across) * tall
        for line, words in enumerate(titles[index]):
            canvas.text(left + _GAP / 2, top - 14 - 16 * line, words, size=12, bold=True)
        _panel(canvas, sheet, moments, (left, top - high), column, inside, index % across == 0)
    for line, entries in enumerate(key):
        _draw_key(canvas, 8 + 22 * (len(key) - line) - 11, entries)
    return canvas, size


def _columns(sheet: _Sheet, ruler: Canvas) -> tuple[int, float]:
    """Returns how many panels stand in a row, and how wide each is."""
    from .shapes import WIDTH

    count = len(sheet.orders)
    most = max(len(moments) for moments in sheet.orders.values())
    words = [w for o in sheet.orders.values() for moment in o for w in str(moment).split()]
    widest = max((ruler.text_width(word, size=10) for word in words), default=0) + 4
    for across in (count if count <= 3 else 2 if count == 4 else 3, 2, 1):
        room = (WIDTH - _MARGIN - 4 - (across - 1) * _GAP) / across
        if across <= count and room / most >= max(58, widest):
            break
    return across, room


def _names_fit(sheet: _Sheet, ruler: Canvas, room: float) -> bool:
    return all(ruler.text_width(look.name, size=9) <= room for look in sheet.looks.values())


def _panel(
    canvas: Canvas,
    sheet: _Sheet,
    moments: Mapping[str, Mapping[int, Hashable]],
    corner: tuple[float, float],
    column: float,
    inside: bool,
    first: bool,
) -> None:
    from ..curves.scene import GREY, INK, PALE
    from .shapes import arrow, empty, frame, in_lines, rank_color

    left, top = corner
    axis = top - len(sheet.ranks) * _ROW - 4
    end = left + len(moments) * column
    for row, rank in enumerate(sheet.ranks):
        middle = top - (row + 0.5) * _ROW
        canvas.line([left + _GAP / 2, end - _GAP / 2], [middle, middle], PALE, width=2)
        if first:
            color = rank_color(rank)
            canvas.text(left - 4, middle, f"rank {rank}", color, bold=rank == 0, across="right")
        for place, held in enumerate(moments.values()):
            start = left + place * column + _GAP / 2
            box = (start, middle - _ROW / 2 + 3, start + column - _GAP, middle + _ROW / 2 - 3)
            canvas.box(box, "white")
            if held.get(rank) is None:
                empty(canvas, box)
                continue
            look = sheet.looks[held[rank]]
            frame(canvas, box, GREY, look.fill)
            centre, named = (box[0] + box[2]) / 2, bool(inside and look.name)
            canvas.text(
                centre, middle + 6 * named, look.letter, bold=True, across="center", size=12
            )
            if named:
                canvas.text(centre, middle - 8, look.name, INK, size=9, across="center")
    arrow(canvas, (left + _GAP / 2, axis), (end - _GAP / 2 + 4, axis), GREY)
    for place, moment in enumerate(moments):
        centre = left + (place + 0.5) * column
        canvas.line([centre, centre], [axis, axis - 4], GREY)
        for line, words in enumerate(in_lines(canvas, str(moment), column - 4)):
            canvas.text(centre, axis - 13 - 13 * line, words, INK, size=10, across="center")


def _key(sheet: _Sheet, ruler: Canvas) -> list[list[tuple[float, _Look]]]:
    """Returns the named values in lines, each with where it begins."""
    from .shapes import WIDTH

    lines: list[list[tuple[float, _Look]]] = [[]]
    x = _MARGIN + _GAP / 2
    for look in (look for look in sheet.looks.values() if look.name):
        wide = 32 + ruler.text_width(look.name) + 20
        if lines[-1] and x + wide > WIDTH:
            lines.append([])
            x = _MARGIN + _GAP / 2
        lines[-1].append((x, look))
        x += wide
    return lines


def _draw_key(canvas: Canvas, y: float, entries: list[tuple[float, _Look]]) -> None:
    from ..curves.scene import GREY
    from .shapes import WIDTH, frame

    for x, look in entries:
        frame(canvas, (x, y - 8, x + 26, y + 8), GREY, look.fill)
        canvas.text(x + 13, y, look.letter, bold=True, across="center", size=11)
        canvas.text(x + 32, y, canvas.fitting(look.name, WIDTH - x - 36))
