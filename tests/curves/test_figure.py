"""The live figure: what it shows, how often it draws, and that it leaves no trace elsewhere."""

import io
import math
import subprocess
import sys
import textwrap
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from loadwrap.curves import budget as budget_module
from loadwrap.curves import figure as figure_module
from loadwrap.curves.axes import grown, ranges, round_up, spread_out, tick_labels, ticks
from loadwrap.curves.budget import Budget
from loadwrap.curves.figure import HEIGHT, WIDTH, LiveFigure
from loadwrap.curves.scene import RANK_0
from loadwrap.curves.store import Curves


def curves_of(ranks: int, n: int, start: int = 0, metric: str = "loss") -> Curves:
    curves = Curves()
    steps = np.arange(start, start + n)
    for rank in range(ranks):
        curves.extend(rank, metric, steps, 2.3 * np.exp(-np.arange(n) / n) + 0.01 * rank)
    return curves


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def has_color(png: bytes, color: str) -> bool:
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return bool((np.abs(pixels(png) - wanted).max(axis=2) < 12).any())


def final(curves: Curves, metric: str = "loss", **options) -> bytes:
    live = LiveFigure(metric, "train.py", **options)
    live.finish(curves, "finished · 3 s")
    return live.png()


@pytest.mark.parametrize("ranks", [1, 2, 8, 64])
@pytest.mark.parametrize("n", [1, 60, 3000])
def test_any_number_of_ranks_and_steps_can_be_drawn(ranks, n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curves = curves_of(ranks, n)
        live = LiveFigure("loss", "train.py", resumed_at=0, predicted=1.74)
        live.draw(curves, "running")
        assert Image.open(io.BytesIO(live.png())).size == (WIDTH, HEIGHT)
        live.finish(curves, "finished")
    image = Image.open(io.BytesIO(live.png()))
    assert image.size == (2 * WIDTH, 2 * HEIGHT)
    assert len(live.png()) <= (40_000 if ranks <= 8 else 110_000)
    assert has_color(live.png(), RANK_0)
    assert pixels(live.png())[2, 2].tolist() == [255, 255, 255]


def test_a_redraw_costs_no_more_vertices_for_a_longer_run(monkeypatch):
    drawn = []
    real = figure_module.Canvas.line

    def counted(self, x, y, *args, **options):
        drawn[-1] += len(x)
        return real(self, x, y, *args, **options)

    monkeypatch.setattr(figure_module.Canvas, "line", counted)
    for n in (1_000, 100_000):
        curves = Curves()
        for rank in range(8):
            curves.extend(rank, "loss", np.arange(n), np.random.default_rng(rank).normal(size=n))
        drawn.append(0)
        LiveFigure("loss", "").draw(curves, "running")
    assert drawn[1] <= 1.1 * drawn[0]


def test_drawing_step_by_step_ends_in_the_picture_of_drawing_at_once(monkeypatch):
    monkeypatch.setattr(figure_module.Pace, "overall", lambda self: None)
    live = LiveFigure("loss", "train.py", resumed_at=3)
    growing = Curves()
    for step in range(40):
        for rank in range(3):
            growing.extend(rank, "loss", [step], [math.sin(step) + rank])
        live.draw(growing, "running")
    live.finish(growing, "finished")
    at_once = Curves()
    for rank in range(3):
        at_once.extend(rank, "loss", range(40), [math.sin(s) + rank for s in range(40)])
    whole = LiveFigure("loss", "train.py", resumed_at=3)
    whole.finish(at_once, "finished")
    assert live.png() == whole.png()


@pytest.mark.parametrize(
    "values",
    [
        [math.nan] * 5,
        [1.0, math.nan, 2.0, math.inf, 1.0],
        [math.inf, -math.inf, 1.0, 1.0, math.nan],
        [1.7e308, -1.7e308, 0.0, 1e-300, 5.0],
        [1e30, 1e30, 1e30, 1e30, 1e30],
        [0.0] * 5,
        [1e-12, 2e-12, 1e-12, 3e-12, 1e-12],
        [1.0, 1.0 + 1e-15, 1.0, 1.0, 1.0],
    ],
)
def test_no_value_breaks_the_figure(values):
    curves = Curves()
    curves.extend(0, "loss", range(5), [1.0] * 5)
    curves.extend(1, "loss", range(5), values)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        live = LiveFigure("loss", "train.py")
        live.draw(curves, "running")
        live.finish(curves, "finished")
    assert live.png() != final(curves_of(1, 5))


def test_nan_is_said_in_words_and_marked():
    healthy, broken = Curves(), Curves()
    for rank in range(3):
        values = np.ones(50)
        healthy.extend(rank, "loss", range(50), values)
        values = np.where(np.arange(50) >= 37, math.nan, 1.0) if rank == 2 else values
        broken.extend(rank, "loss", range(50), values)
    alarm = "#A6002F"
    assert has_color(final(broken), alarm)
    assert not has_color(final(healthy), alarm)


@pytest.mark.parametrize("steps", [[5], [-3], [0, 10**15], [2**62, 2**62 + 1]])
def test_no_step_breaks_the_figure(steps):
    curves = Curves()
    curves.extend(0, "loss", steps, [1.0] * len(steps))
    live = LiveFigure("loss", "")
    live.draw(curves, "")
    live.finish(curves, "")
    assert has_color(live.png(), RANK_0)


def test_a_restart_that_goes_back_is_drawn():
    curves = Curves()
    for rank in range(2):
        curves.extend(rank, "loss", [0, 1, 2, 3, 1, 2, 3, 4], np.arange(8.0))
    live = LiveFigure("loss", "")
    live.draw(curves, "")
    live.finish(curves, "")
    assert live.describe(curves).startswith("loss of 2 ranks, steps 0 to 4:")


def test_before_the_first_record_and_without_the_metric_it_says_so():
    empty, other = LiveFigure("loss", ""), LiveFigure("loss", "")
    empty.draw(Curves(), "")
    other.draw(curves_of(1, 5, metric="acc"), "")
    assert empty.png() != other.png()
    assert empty.describe(Curves()) == "loss: no record."
    empty.finish(Curves(), "")
    empty.draw(curves_of(1, 5), "")  # the records may come after all
    assert has_color(empty.png(), RANK_0)


def test_the_title_counts_to_the_last_step_that_is_drawn():
    def title(metric: str, *others: str) -> str:
        curves = curves_of(2, 100)
        for other in others:
            curves.extend(0, other, [0, 100], [0.1, 0.9])
        return LiveFigure(metric, "")._progress(curves, "finished", over=True)

    assert title("loss", "accuracy").startswith("step 99 ·")
    assert title("accuracy", "accuracy").startswith("step 100 ·")
    assert title("accuracy").startswith("step 99 ·")  # nothing of it yet: how far the run is


def test_without_news_only_the_clock_is_redrawn_and_that_seldom(monkeypatch):
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now, thread_time=lambda: 0.0)
    monkeypatch.setattr(figure_module, "time", clock)
    live, curves, pictures = LiveFigure("loss", ""), curves_of(2, 5), []
    for tick in range(21):
        now = 1000.0 + tick / 4
        if tick == 10:
            curves.extend(0, "loss", [5], [0.5])
        live.draw(curves, f"running · {tick / 4:.2f} s")
        pictures.append(live.png())
    changed = [tick for tick in range(1, 21) if pictures[tick] != pictures[tick - 1]]
    assert changed == [4, 8, 10, 14, 18]


def test_names_and_titles_of_any_text_are_drawn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for words in ("$x^2$", "größe", "损失", "a\nb", "x" * 500, "", "\\frac{", "%s {}"):
            live = LiveFigure(words, words)
            live.draw(curves_of(2, 5, metric=words), words)
            live.finish(curves_of(2, 5, metric=words), words)


def test_the_description_has_no_measured_value():
    assert LiveFigure("loss", "", resumed_at=60, predicted=1.7391).describe(
        curves_of(4, 60, start=60)
    ) == (
        "loss of 4 ranks, steps 60 to 119: one thin line per rank, bold black their mean; "
        "dashed: resumed at step 60; dotted: predicted 1.74."
    )
    assert LiveFigure("loss", "").describe(curves_of(1, 3)) == "loss of rank 0, steps 0 to 2."


@pytest.mark.parametrize("cost", [0.004, 0.05])
@pytest.mark.parametrize(("seconds", "most"), [(20, 81), (600, 640), (86_400, 740)])
def test_redraws_are_rare_enough(monkeypatch, cost, seconds, most):
    now, times = 1000.0, []
    monkeypatch.setattr(budget_module, "time", SimpleNamespace(monotonic=lambda: now))
    budget = Budget()
    while now < 1000 + seconds:
        if budget.due():
            budget.spent(cost)
            times.append(now)
        now += 0.1
    assert len(times) == budget.redraws <= most
    assert min(np.diff(times)) >= 0.2
    assert len(times) * cost <= 0.03 * seconds + 2 * cost
    if cost < 0.01:
        assert max(np.diff([t for t in times if t < 1060])) <= 0.41


def test_it_reads_and_leaves_nothing_of_matplotlibs_state():
    code = """
        import hashlib, sys
        import matplotlib.style
        if sys.argv[1] == "styled":
            matplotlib.style.use("dark_background")
            matplotlib.rcParams.update({
                "font.size": 30, "font.family": "serif", "lines.linewidth": 9, "text.usetex": True,
                "axes.grid": True, "savefig.dpi": 300, "figure.dpi": 300, "backend": "svg",
            })
        before = matplotlib.rcParams.copy()
        from loadwrap.curves.figure import LiveFigure
        from loadwrap.curves.store import Curves
        curves = Curves()
        curves.extend(0, "loss", [0, 1, 2], [1.0, 0.5, 0.2])
        curves.extend(1, "loss", [0, 1, 2], [1.1, 0.6, 0.3])
        figure = LiveFigure("loss", "train.py", 1, 0.4)
        figure.draw(curves, "running")
        figure.finish(curves, "finished")
        assert matplotlib.rcParams.copy() == before
        assert "matplotlib.pyplot" not in sys.modules
        assert "torch" not in sys.modules
        print(hashlib.sha256(figure.png()).hexdigest())
    """
    told = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), style],
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for style in ("plain", "styled")
    ]
    assert told[0] == told[1]


def test_limits_grow_seldom_and_always_hold_everything():
    limits, changes = None, 0
    for step in range(2000):
        low, high = -step, 10.0 + step
        new = grown(low, high, limits)
        assert new[0] <= low and new[1] >= high
        changes += new != limits
        limits = new
    assert changes < 40
    widths = [round_up(steps) for steps in range(1, 100_000)]
    assert all(width >= steps for steps, width in enumerate(widths, 1))
    assert len(set(widths)) < 45


@pytest.mark.parametrize(
    ("low", "high", "whole", "labels"),
    [
        (0, 60, True, ["0", "20", "40", "60"]),
        (0, 2.3, False, ["0", "1", "2"]),
        (0.018, 0.031, False, ["0.020", "0.025", "0.030"]),
        (0, 3, True, ["0", "1", "2", "3"]),
        (0, 250_000, True, ["0", "100,000", "200,000"]),
        (-2e6, 2e6, False, ["-2e+06", "-1e+06", "0", "1e+06", "2e+06"]),
    ],
)
def test_ticks_are_round(low, high, whole, labels):
    assert tick_labels(ticks(low, high, 4, whole=whole)) == labels


def test_ticks_where_floats_cannot_tell_them_apart():
    assert len(ticks(1e16, 1e16 + 2, 5)) <= 11
    assert ticks(1.0, 1.0, 5) == [1.0]


@pytest.mark.parametrize("wanted", [[0, 0, 0], [50, 51, 90], [-20, 99, 100, 101], [40], []])
def test_names_keep_their_distance(wanted):
    places = spread_out(wanted, 13, 0, 100)
    assert len(places) == len(wanted)
    assert all(b - a >= 13 - 1e-9 for a, b in zip(places, places[1:], strict=False))
    assert all(0 <= place <= 100 for place in places)


def test_more_names_than_room_are_squeezed():
    places = spread_out([50] * 30, 13, 0, 100)
    assert places == sorted(places) and places[0] >= -1e-9 and places[-1] <= 100 + 1e-9


def test_ranks_in_words():
    assert ranges([3, 1, 2, 7, 9, 8, 8, 12, 13]) == "1–3, 7–9, 12, 13"
