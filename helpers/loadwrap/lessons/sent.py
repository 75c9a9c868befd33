"""The figure of lesson 03: what wrapping sends to the other ranks, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..curves.canvas import Box, Canvas
    from ..curves.display import Picture

__all__ = ["plot_sent"]

_HEAD, _ROW, _GAP, _FIRST, _LEFT = 34.0, 62.0, 14.0, 170.0, 8.0
_MOST = 8  # columns; of more ranks the first ones and the last are drawn


def plot_sent(parts: Mapping[str, int], ranks: int = 4) -> Picture:
    """Draws what rank 0 sends to each other rank: a row for each part, with its bytes.

    Args:
        parts: ``{part: bytes sent to each rank}``, such as ``{"parameters": 4096, "buffers": 0}``.
            A part of 0 bytes is not sent: every other rank keeps its own.
        ranks: How many ranks there are, at least 2.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        TypeError: If ``parts`` is not a dict of numbers of bytes, or ``ranks`` not an integer.
        ValueError: If there is no part, a number is negative, or there are fewer than 2 ranks.

    Example:
        >>> plot_sent({"parameters": 4096, "buffers": 20, "optimizer state": 0}, ranks=2)
        <figure of what rank 0 sends: parameters, buffers, optimizer state>
    """
    _check(parts, ranks)
    from ..curves.canvas import Canvas
    from ..curves.display import Picture
    from .shapes import WIDTH

    size = WIDTH, round(_HEAD + len(parts) * _ROW)
    canvas = Canvas(*size, scale=2)
    places = _columns(ranks)
    for name, (left, right), rank in places:
        _head(canvas, size[1] - 16, name, (left + right) / 2, rank)
    for row, (part, count) in enumerate(parts.items()):
        _draw_row(canvas, size[1] - _HEAD - row * _ROW, part, count, row, places)
    words = f"<figure of what rank 0 sends: {', '.join(map(str, parts))}>"
    said = [
        f"{part}: {f'{in_words(n)} to each' if n else 'not sent, each keeps its own'}"
        for part, n in parts.items()
    ]
    others = f"ranks 1 to {ranks - 1}" if ranks > 2 else "rank 1"
    alt = f"What rank 0 sends to {others}. {'; '.join(said)}."
    return Picture(canvas.png(small=True), words, alt, size)


def in_words(count: int) -> str:
    """Returns a number of bytes as people say it.

    Example:
        >>> in_words(1), in_words(20_412), in_words(4_200_000)
        ('1 byte', '20.4 kB', '4.2 MB')
    """
    if count == 1:
        return "1 byte"
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    if unit == "bytes":
        return f"{count} bytes"
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


_Place = tuple[str, tuple[float, float], int]
"""A column: its heading, from where to where, and the rank (-1: the ranks left out)."""


def _check(parts: Mapping[str, int], ranks: int) -> None:
    if not isinstance(parts, Mapping):
        raise TypeError('plot_sent() needs bytes by part, such as {"parameters": 4096}.')
    if not parts:
        raise ValueError("plot_sent() needs at least one part.")
    for part, count in parts.items():
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"plot_sent(): the bytes of {part!r} must be an int, not {count!r}.")
        if count < 0:
            raise ValueError(f"plot_sent(): the bytes of {part!r} cannot be {count}.")
    if isinstance(ranks, bool) or not isinstance(ranks, int):
        raise TypeError(f"plot_sent(): ranks must be an int, not {ranks!r}.")
    if ranks < 2:
        raise ValueError(f"plot_sent() needs at least 2 ranks, not {ranks}.")


def _columns(ranks: int) -> list[_Place]:
    from .shapes import WIDTH

    shown = list(range(1, ranks))
    if len(shown) > _MOST - 1:
        shown = [*shown[: _MOST - 3], -1, ranks - 1]
    places: list[_Place] = [("rank 0", (_LEFT, _LEFT + _FIRST), 0)]
    start = _LEFT + _FIRST + 40
    wide = min((WIDTH - start - 8 + _GAP) / len(shown), 150.0)
    for index, rank in enumerate(shown):
        left = start + index * wide
        name = "…" if rank < 0 else f"rank {rank}"
        places.append((name, (left, left + wide - _GAP), rank))
    return places


def _head(canvas: Canvas, y: float, name: str, centre: float, rank: int) -> None:
    from ..curves.scene import GREY
    from .shapes import rank_color

    color = GREY if rank < 0 else rank_color(rank)
    canvas.text(centre, y, name, color, bold=rank == 0, across="center", size=12)


def _draw_row(
    canvas: Canvas, top: float, part: str, count: int, row: int, places: list[_Place]
) -> None:
    """Draws one part: rank 0's box, the line over the others, and what arrives there."""
    from ..curves.scene import ALARM, GREY, INK
    from .shapes import FILLS, arrow, cross, empty, frame

    fill = FILLS[row % len(FILLS)]
    rail, high, low = top - 6, top - 18, top - _ROW + 8

    def box(edges: tuple[float, float]) -> Box:
        return edges[0], low, edges[1], high

    (_, own, _), others = places[0], places[1:]
    frame(canvas, box(own), GREY, fill)
    centre, middle = (own[0] + own[1]) / 2, (high + low) / 2
    room = own[1] - own[0] - 10
    canvas.text(
        centre, middle + 8, canvas.fitting(part, room, bold=True), bold=True, across="center"
    )
    said = f"{in_words(count)} to each" if count else "not sent"
    canvas.text(centre, middle - 8, said, INK if count else ALARM, size=10, across="center")
    if count:
        last = (others[-1][1][0] + others[-1][1][1]) / 2
        canvas.line([centre, centre, last], [high, rail, rail], INK, width=1.4)
    else:
        stop = own[1] + 18
        canvas.line([own[1], stop], [middle, middle], ALARM, width=1.4)
        cross(canvas, stop + 5, middle, ALARM)
    for name, edges, rank in others:
        at = (edges[0] + edges[1]) / 2
        if rank < 0:
            canvas.text(at, middle, name, GREY, across="center")
            continue
        if not count:
            empty(canvas, box(edges))
            _inside(canvas, at, middle, "keeps its own", edges, GREY)
            continue
        frame(canvas, box(edges), GREY, fill)
        arrow(canvas, (at, rail), (at, high + 1), INK)
        _inside(canvas, at, middle, part, edges, INK)


def _inside(
    canvas: Canvas, at: float, y: float, words: str, edges: tuple[float, float], color: str
) -> None:
    """Writes a word in a box that it fits into; a narrow box says it by its colour."""
    if canvas.text_width(words, size=10) <= edges[1] - edges[0] - 6:
        canvas.text(at, y, words, color, size=10, across="center")
