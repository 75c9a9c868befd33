"""What the figures of boxes have in common: their colours, frames, arrows and crosses."""

from __future__ import annotations

from itertools import count, product
from string import ascii_uppercase

from ..curves.canvas import Box, Canvas
from ..curves.scene import DARK, GREY, INK, RANK_0

WIDTH = 720
# Okabe and Ito's colours, less the two that mean rank 0 and the other ranks in every figure.
# Each is told from its neighbours in grey too, and what is in a box has a letter besides.
FILLS = ("#009E73", "#F0E442", "#CC79A7", "#8A6D00", "#56B4E9", "#7A4FBF", "#E69F00", "#5A5A5A")
NESTED = ("#0F5F9E", "#00704F", "#9A2F70", "#6B5500", "#5A35A0")  # dark enough for small words
OTHERS = "#{:02X}{:02X}{:02X}".format(*DARK)


def rank_color(rank: int) -> str:
    """Returns the colour that a rank's name has in every figure."""
    return RANK_0 if rank == 0 else OTHERS


def letter(index: int) -> str:
    """Returns A, B, … Z, AA, AB and so on."""
    for length in count(1):
        if index < 26**length:
            break
        index -= 26**length
    return next(
        "".join(letters)
        for place, letters in enumerate(product(ascii_uppercase, repeat=length))
        if place == index
    )


def frame(
    canvas: Canvas, box: Box, edge: str, fill: str | None = None, *, share: float = 0.45
) -> None:
    """Draws a box: filled with a tint of a colour, with an edge of one."""
    left, bottom, right, top = box
    if fill is not None:
        canvas.box(box, fill, share)
    canvas.line([left, right, right, left, left], [bottom, bottom, top, top, bottom], edge)


def empty(canvas: Canvas, box: Box) -> None:
    """Draws the dashed place where something is not."""
    left, bottom, right, top = box
    xs, ys = [left, right, right, left, left], [bottom, bottom, top, top, bottom]
    canvas.line(xs, ys, GREY, width=0.8, dashes=(2, 3))


def arrow(
    canvas: Canvas, start: tuple[float, float], end: tuple[float, float], color: str = INK
) -> None:
    """Draws an arrow to the right or down."""
    (x, y), (to_x, to_y) = start, end
    canvas.line([x, to_x], [y, to_y], color, width=1.4)
    across = to_x > x
    for side in (-1, 1):
        back = (to_x - 5, to_y + 4 * side) if across else (to_x + 4 * side, to_y + 5)
        canvas.line([back[0], to_x], [back[1], to_y], color, width=1.4)


def cross(canvas: Canvas, x: float, y: float, color: str, reach: float = 5) -> None:
    """Draws a cross: this does not happen."""
    for side in (-1, 1):
        canvas.line([x - reach, x + reach], [y - reach * side, y + reach * side], color, width=2)


def in_lines(
    canvas: Canvas, words: str, room: float, *, size: float = 10, bold: bool = False
) -> list[str]:
    """Returns a text in lines that fit; a word that does not is shortened."""
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and canvas.text_width(longer, size=size, bold=bold) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return [canvas.fitting(line, room, size=size, bold=bold) for line in lines]
