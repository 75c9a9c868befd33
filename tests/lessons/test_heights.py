"""The figure of heights by ranks: smooth, in the colours of all figures, the same each time."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from loadwrap.lessons.heights import plot_heights


def height(ranks: float) -> float:
    return (0.05 + (ranks - 1) * 2.3) / ranks


def test_the_formula_is_asked_between_the_ranks_too() -> None:
    asked: list[float] = []

    def noted(ranks: float) -> float:
        asked.append(ranks)
        return height(ranks)

    plot_heights(noted, {1: 0.05, 2: 1.2, 8: 2.0})
    assert min(asked) == 1 and max(asked) == 8
    assert max(np.diff(asked)) < 0.05


def test_it_is_black_on_white_without_a_box() -> None:
    picture = plot_heights(height, {1: 0.05, 2: 1.2, 4: 1.7, 8: 2.0})
    assert repr(picture) == "<figure of first mean loss by ranks>"
    pixels = np.asarray(Image.open(io.BytesIO(picture.png())).convert("RGB")).astype(int)
    assert (pixels.max(axis=2) - pixels.min(axis=2)).max() <= 8, "grey, black and white only"
    assert (pixels[:10] == 255).all() and (pixels[:, -10:] == 255).all()


def test_one_height_is_enough_and_none_is_not() -> None:
    plot_heights(height, {1: 0.05})
    with pytest.raises(ValueError, match="at least one"):
        plot_heights(height, {})
