"""Limits, ticks and the places of labels: arithmetic of a figure, no drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

Span = tuple[float, float]


def padded(low: float, high: float, share: float = 0.05) -> Span:
    """Returns limits with some air around what is drawn, also where it is one point."""
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # also what floats hardly tell apart
        air = abs(low) * 0.1 or 0.5
        return low - air, high + air
    air = (high - low) * share
    return low - air, high + air


def grown(low: float, high: float, previous: Span | None) -> Span:
    """Returns limits that hold everything and change seldom while a run grows.

    Args:
        low: The smallest value to show.
        high: The largest.
        previous: The limits so far; kept as long as they hold.
    """
    if previous is None:
        return padded(low, high, 0.1)
    left, right = previous
    if low >= left and high <= right:
        return previous
    # A quarter more than needed: the scaffold is then redrawn a few dozen times in all.
    extra = 0.25 * (max(high, right) - min(low, left))
    return (low - extra if low < left else left), (high + extra if high > right else right)


def round_up(steps: float) -> float:
    """Returns the next of 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120 and so on."""
    steps = max(steps, 10)
    decade = 10.0 ** math.floor(math.log10(steps))
    for factor in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if factor * decade >= steps:
            return factor * decade
    return 10 * decade


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Returns at most ``most`` round numbers in a range; ``whole``: integers only."""
    step = (high - low) / max(most, 1)
    if not step > 0 or not math.isfinite(step):
        return [low]
    decade = 10.0 ** math.floor(math.log10(step))
    step = next((f * decade for f in (1, 2, 2.5, 5, 10) if f * decade >= step * 0.999), step)
    if whole:
        step = max(1.0, step if step != 2.5 else 5.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first > 2 * most:  # the range is too narrow for floats to tell apart
        return [low]
    return [index * step for index in range(first, last + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Returns labels of one precision for ticks."""
    largest = max((abs(value) for value in values), default=0.0)
    apart = min((b - a for a, b in zip(values, values[1:], strict=False)), default=largest)
    if largest >= 1e6 or (0 < largest < 1e-3):
        return [f"{value:.3g}" for value in values]
    for digits in range(8):
        if abs(apart - round(apart, digits)) <= apart * 1e-6:
            return [f"{value:,.{digits}f}" for value in values]
    return [f"{value:.3g}" for value in values]


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Returns places at least ``gap`` apart that move as little as possible.

    Args:
        wanted: Where each label would like to be, ascending.
        gap: The least distance.
        low: The lowest place allowed.
        high: The highest; if there are too many labels the gap shrinks.
    """
    n = len(wanted)
    if n > 1:
        gap = min(gap, (high - low) / (n - 1))
    # Labels that would collide form a block, which sits at the mean of their wishes.
    blocks: list[list[float]] = []  # [sum of (wish - offset), size, offset of the first]
    for index, place in enumerate(wanted):
        blocks.append([place - index * gap, 1])
        while len(blocks) > 1 and _mean(blocks[-2]) >= _mean(blocks[-1]):
            total, size = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += size
    places: list[float] = []
    for block in blocks:
        base = min(max(_mean(block), low), high - (n - 1) * gap)
        places += [base + (len(places) + k) * gap for k in range(int(block[1]))]
    return places


def _mean(block: list[float]) -> float:
    return block[0] / block[1]


def ranges(numbers: Sequence[int]) -> str:
    """Returns ``"1–3, 7"`` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    joined = {0: "{0}", 1: "{0}, {1}"}
    return ", ".join(joined.get(b - a, "{0}–{1}").format(a, b) for a, b in parts)
