"""The figure of lesson 01 that has ranks, not steps, along its axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["plot_heights"]

_WIDTH, _HEIGHT = 720, 250
_LEFT, _BOTTOM, _RIGHT, _TOP = 62.0, 44.0, _WIDTH - 90.0, _HEIGHT - 14.0
_VERTICES = 400  # of the formula's line: enough to look like a curve


def plot_heights(formula: Callable[[float], float], measured: Mapping[int, float]) -> object:
    """Draws what a formula predicts for any number of ranks, and dots that were measured.

    It looks as every figure of a run does: the mean in black, a prediction dotted.

    Args:
        formula: The mean loss that a number of ranks should have.
        measured: The mean loss by the number of ranks.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        ValueError: If nothing was measured.

    Example:
        >>> plot_heights(lambda ranks: 2.3 * (ranks - 1) / ranks, {1: 0.0, 2: 1.2, 4: 1.7})
        <figure of first mean loss by ranks>
    """
    if not measured:
        raise ValueError("plot_heights() needs at least one measured height.")
    import numpy as np

    from ..curves.axes import padded, tick_labels, ticks
    from ..curves.canvas import Canvas
    from ..curves.display import Picture
    from ..curves.scene import GREY, INK, PALE

    most = max(measured)
    ranks = np.linspace(1, max(most, 2), _VERTICES)
    losses = np.array([formula(float(count)) for count in ranks])
    low, high = padded(0.0, max(*losses, *measured.values()), 0.08)
    first, last = padded(1, max(most, 2), 0.03)

    def across(count: float) -> float:
        return _LEFT + (count - first) / (last - first) * (_RIGHT - _LEFT)

    def up(loss: float) -> float:
        return _BOTTOM + (loss - low) / (high - low) * (_TOP - _BOTTOM)

    canvas = Canvas(_WIDTH, _HEIGHT, scale=2)
    marks = ticks(low, high, 5)
    for value, words in zip(marks, tick_labels(marks), strict=True):
        canvas.line([_LEFT, _RIGHT], [up(value)] * 2, PALE, width=0.8)
        canvas.text(_LEFT - 6, up(value), words, GREY, size=10, across="right")
    for count in range(1, int(last) + 1):
        canvas.line([across(count)] * 2, [_BOTTOM, _BOTTOM - 4], GREY, width=0.8)
        canvas.text(across(count), _BOTTOM - 12, f"{count}", GREY, size=10, across="center")
    canvas.line([_LEFT, _RIGHT], [_BOTTOM, _BOTTOM], GREY, width=0.8)
    canvas.text((_LEFT + _RIGHT) / 2, _BOTTOM - 28, "ranks", INK, across="center")
    canvas.text(_LEFT - 48, (_BOTTOM + _TOP) / 2, "first mean loss", INK, upright=True)

    canvas.line(
        [across(c) for c in ranks], [up(y) for y in losses], INK, width=1.2, dashes=(1.2, 2.4)
    )
    for count, loss in measured.items():
        canvas.dot(across(count), up(loss), INK, 4)
    middle = sorted(measured)[len(measured) // 2]
    canvas.text(across(middle), up(measured[middle]) - 15, "measured", INK, bold=True)
    canvas.text(_RIGHT + 6, up(losses[-1]), "predicted", INK)
    words = "first mean loss by ranks"
    alt = f"{words}: dotted, the predicted one; dots, the measured ones"
    return Picture(canvas.png(small=True), f"<figure of {words}>", alt, (_WIDTH, _HEIGHT))
