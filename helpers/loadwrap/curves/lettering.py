"""Words as small pictures, kept: setting type costs more than all the rest of a redraw."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties, findfont, get_font
from numpy.typing import NDArray

_FAMILY = "DejaVu Sans"  # comes with matplotlib
_MOST_KEPT = 1000
_AIR = 2  # pixels round a word: its shapes may reach beyond its measured width


class Lettering:
    """Sets words in one resolution, and keeps what it has set.

    Args:
        scale: Device pixels per CSS pixel.
    """

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._measure: Any = RendererAgg(1, 1, 72 * scale)
        self._widths: dict[tuple[str, float, bool], float] = {}
        self._stamps: dict[tuple[str, float, bool, str], NDArray[np.uint8]] = {}

    def width(self, words: str, size: float, bold: bool) -> float:
        """Returns how wide a line of text is, in device pixels."""
        parts = words.split(" ")
        widths = [self._word_width(word, size, bold) for word in parts if word]
        return sum(widths) + (len(parts) - 1) * self._word_width(" ", size, bold)

    def set(
        self, words: str, size: float, bold: bool, color: str
    ) -> list[tuple[float, NDArray[np.uint8]]]:
        """Returns a line of text as pictures, each with its distance from the start.

        Each picture's baseline lies :func:`below` pixels above its lower edge.
        """
        placed, x = [], 0.0
        for word in words.split(" "):
            if word:
                placed.append((x - _AIR, self._stamp(word, size, bold, color)))
                x += self._word_width(word, size, bold)
            x += self._word_width(" ", size, bold)
        return placed

    def below(self, size: float) -> int:
        """Returns how many device pixels there are below the baseline."""
        return math.ceil(0.3 * size * self._scale) + _AIR

    def _word_width(self, word: str, size: float, bold: bool) -> float:
        key = word, size, bold
        if key not in self._widths:
            if len(self._widths) >= _MOST_KEPT:
                self._widths.clear()
            wide, _, _ = self._measure.get_text_width_height_descent(
                printable(word, bold), font(size, bold), False
            )
            self._widths[key] = float(wide)
        return self._widths[key]

    def _stamp(self, word: str, size: float, bold: bool, color: str) -> NDArray[np.uint8]:
        key = word, size, bold, color
        if key not in self._stamps:
            if len(self._stamps) >= _MOST_KEPT:
                self._stamps.clear()
            wide = math.ceil(self._word_width(word, size, bold)) + 2 * _AIR
            high = math.ceil(1.2 * size * self._scale) + self.below(size)
            agg: Any = RendererAgg(wide, high, 72 * self._scale)
            gc = agg.new_gc()
            gc.set_foreground(to_rgba(color), isRGBA=True)
            baseline = high - self.below(size)
            agg.draw_text(gc, _AIR, baseline, printable(word, bold), font(size, bold), 0)
            # Agg draws images from their last row up.
            self._stamps[key] = np.array(agg.buffer_rgba())[::-1].copy()
        return self._stamps[key]


@lru_cache(maxsize=32)
def font(size: float, bold: bool) -> FontProperties:
    """Returns the one typeface of all figures."""
    return FontProperties(family=_FAMILY, size=size, weight="bold" if bold else "normal")


@lru_cache(maxsize=256)
def printable(words: str, bold: bool) -> str:
    """Replaces what the font lacks: matplotlib would warn of it at each redraw."""
    if words.isascii() and words.isprintable():
        return words
    face = get_font(findfont(font(11, bold)))
    return "".join(c if c.isprintable() and face.get_char_index(ord(c)) else "?" for c in words)
