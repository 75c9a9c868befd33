"""A white sheet to draw lines and words on, and its PNG.

Straight on matplotlib's Agg renderer, below figures and axes: nothing here reads or sets
pyplot's state, the user's rcParams or their backend, and a redraw costs a few milliseconds.
All lengths are CSS pixels, y grows upwards.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.path import Path
from matplotlib.transforms import Bbox, IdentityTransform
from numpy.typing import NDArray
from PIL import Image

from .lettering import Lettering, font, printable

Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""

_IDENTITY = IdentityTransform()


class Canvas:
    """A drawing of ``width`` by ``height`` CSS pixels.

    Args:
        width: Width in CSS pixels.
        height: Height in CSS pixels.
        scale: Device pixels per CSS pixel; 2 is sharp on the screens of today.
    """

    def __init__(self, width: int, height: int, scale: float = 1.0) -> None:
        self.width, self.height, self.scale = width, height, scale
        # At 72 dpi a point, Agg's unit of width and type size, is a pixel.
        self._agg: Any = RendererAgg(round(width * scale), round(height * scale), 72 * scale)
        self._colors: set[str] = set()
        self._palette: Any = None
        self._letters = Lettering(scale)
        self.box((0, 0, width, height), "white")

    def box(self, box: Box, color: str, alpha: float = 1.0) -> None:
        """Fills a rectangle."""
        if color != "white":
            self._note(color)
        left, bottom, right, top = box
        corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]
        gc = self._agg.new_gc()
        gc.set_linewidth(0)
        rgba = (*to_rgb(color), alpha)
        self._agg.draw_path(gc, Path(np.array(corners) * self.scale), _IDENTITY, rgba)

    def line(
        self,
        x: Sequence[float] | NDArray[np.float64],
        y: Sequence[float] | NDArray[np.float64],
        color: str,
        *,
        width: float = 1.0,
        alpha: float = 1.0,
        dashes: Sequence[float] | None = None,
        clip: Box | None = None,
    ) -> None:
        """Draws a polyline ``[n]``, broken where a coordinate is NaN."""
        points = np.column_stack([x, y]) * self.scale
        if len(points) < 2:
            return
        gc = self._context(color, width, alpha)
        gc.set_capstyle("butt" if dashes else "round")
        gc.set_joinstyle("round")
        if dashes is not None:
            gc.set_dashes(0, list(dashes))
        if clip is not None:
            edges = np.array(clip) * self.scale
            gc.set_clip_rectangle(Bbox(edges.reshape(2, 2)))
        self._agg.draw_path(gc, Path(points), _IDENTITY, None)

    def dot(self, x: float, y: float, color: str, radius: float = 2.0) -> None:
        """Draws a filled disc."""
        circle = Path.circle((x * self.scale, y * self.scale), radius * self.scale)
        gc = self._context(color, 0, 1)
        self._agg.draw_path(gc, circle, _IDENTITY, (*to_rgb(color), 1.0))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        color: str = "black",
        *,
        size: float = 11,
        bold: bool = False,
        across: str = "left",
        upright: bool = False,
    ) -> None:
        """Writes one line of text, centred on ``y``.

        Args:
            x: Where the text begins, is centred or ends, by ``across``.
            y: The middle of the line.
            words: What to write; ``$`` means a dollar.
            color: The colour.
            size: The type size.
            bold: Whether in bold.
            across: ``"left"``, ``"center"`` or ``"right"``.
            upright: Turned by a right angle, reading upwards, centred on ``y``.
        """
        words = " ".join(words.split())
        self._note(color)
        wide = self.text_width(words, size=size, bold=bold)
        # The middle of small letters and digits, so that a line of text sits still.
        middle = 0.36 * size
        if upright:
            place = (x + middle) * self.scale, (self.height - y + wide / 2) * self.scale
            words = printable(words, bold)
            gc = self._context(color, 1, 1)
            self._agg.draw_text(gc, *place, words, font(size, bold), 90)
            return
        left = (x - {"left": 0.0, "center": wide / 2, "right": wide}[across]) * self.scale
        bottom = round((y - middle) * self.scale) - self._letters.below(size)
        gc = self._agg.new_gc()
        for start, stamp in self._letters.set(words, size, bold, color):
            self._agg.draw_image(gc, round(left + start), bottom, stamp)

    def text_width(self, words: str, *, size: float = 11, bold: bool = False) -> float:
        """Returns how wide a text will be, in CSS pixels."""
        return self._letters.width(" ".join(words.split()), size, bold) / self.scale

    def fitting(self, words: str, room: float, *, size: float = 11, bold: bool = False) -> str:
        """Returns the text, shortened if it needs more room than there is."""
        words = " ".join(words.split())
        if self.text_width(words, size=size, bold=bold) <= room:
            return words
        words = words[: max(int(room / (0.4 * size)), 0)]
        while words and self.text_width(words + "…", size=size, bold=bold) > room:
            words = words[:-1]
        return words + "…"

    def snapshot(self) -> Any:
        """Returns the present state of the sheet, for :meth:`restore`."""
        whole = np.array([[0, 0], [self.width, self.height]]) * self.scale
        return self._agg.copy_from_bbox(Bbox(whole))

    def restore(self, snapshot: Any) -> None:
        """Makes the sheet what it was."""
        self._agg.restore_region(snapshot)

    def png(self, *, small: bool = False) -> bytes:
        """Returns the sheet as PNG.

        Args:
            small: Take the time to make it small, for a figure that stays.
        """
        size = round(self.width * self.scale), round(self.height * self.scale)
        image = Image.frombuffer("RGBA", size, self._agg.buffer_rgba(), "raw", "RGBA", 0, 1)
        # Few colours and their shades towards white: a palette makes the picture a third the
        # size, and four times as fast to encode.
        if self._palette is None:
            self._palette = _palette(sorted(self._colors), 12)
        image = image.convert("RGB").quantize(palette=self._palette, dither=Image.Dither.NONE)
        out = io.BytesIO()
        image.save(out, "PNG", compress_level=9 if small else 1)
        return out.getvalue()

    def _note(self, color: str) -> None:
        if color not in self._colors:
            self._colors.add(color)
            self._palette = None

    def _context(self, color: str, width: float, alpha: float) -> Any:
        self._note(color)
        gc = self._agg.new_gc()
        gc.set_foreground((*to_rgb(color), alpha), isRGBA=True)
        gc.set_linewidth(width)
        gc.set_antialiased(True)
        return gc


def _palette(colors: Sequence[str], most: int) -> Image.Image:
    """Returns a palette of each colour in at most so many equal steps from white."""
    levels = min(max(255 // max(len(colors), 1), 2), most)
    entries = [(255, 255, 255)]
    for color in colors[:127]:
        red, green, blue = to_rgb(color)
        for share in (level / levels for level in range(1, levels + 1)):
            shade = [round(255 * (1 - share * (1 - part))) for part in (red, green, blue)]
            # Pillow compares in steps of 4: what is nearly white would stand in for white.
            if min(shade) <= 240:
                entries.append((shade[0], shade[1], shade[2]))
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for entry in entries[:256] for part in entry])
    return palette
