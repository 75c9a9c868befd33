"""One redraw of eight curves: after a million points, and after a thousand.

A redraw is what happens three times a second during a job: a few more records of each rank have
come, and the figure is drawn and encoded anew. Both figures are full of noise from edge to edge.
"""

import time
from statistics import median

import numpy as np
from plan import Plan
from table import Row, ratio, seconds

from loadwrap.curves.figure import LiveFigure
from loadwrap.curves.store import Curves

RANKS, NEW = 8, 20


def measure(plan: Plan) -> list[Row]:
    few, many = [], []
    for _ in range(plan.repeats):
        few.append(redraw(1_000))
        many.append(redraw(1_000_000))
        plan.say(f"1,000 points {few[-1] * 1000:.1f} ms, 1,000,000 {many[-1] * 1000:.1f} ms")
    times = ratio(many, few)
    return [
        Row(
            "one redraw of 8 curves of 1,000,000 points, against 1,000",
            "1.5",
            f"{times:.2f} ({seconds(median(many))} against {seconds(median(few))})",
            times <= 1.5,
        )
    ]


def redraw(points: int) -> float:
    """Returns the median seconds of a redraw once there are so many points."""
    random = np.random.default_rng(0)
    curves, figure = Curves(), LiveFigure("loss", "train.py")

    def add(start: int, count: int) -> None:
        for rank in range(RANKS):
            values = np.exp(-np.arange(start, start + count) / points) + random.random(count)
            curves.extend(rank, "loss", np.arange(start, start + count), values)

    add(0, points)
    figure.draw(curves, "running · 1 s")
    taken = []
    for turn in range(25):
        add(points + turn * NEW, NEW)
        start = time.perf_counter()
        figure.draw(curves, f"running · {turn} s")
        taken.append(time.perf_counter() - start)
    return median(taken[5:])  # the first ones may still move the axes
