"""What is drawn of a curve: bounded, exact in its extremes, and whole."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadwrap.curves.columns import Columns

values = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf]))


def filled(steps, numbers, limit=512, chunks=()):
    columns = Columns(limit)
    cuts = [0, *sorted(chunks), len(steps)]
    for start, stop in zip(cuts, cuts[1:], strict=False):
        columns.add(np.array(steps[start:stop], np.int64), np.array(numbers[start:stop], float))
    return columns


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-50, 200), values), max_size=60), st.data())
def test_extremes_and_counts_hold_however_the_records_come(records, data):
    steps, numbers = [r[0] for r in records], [r[1] for r in records]
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=5))
    columns = filled(steps, numbers, limit=16, chunks=cuts)
    finite = [(s, v) for s, v in records if math.isfinite(v)]
    x, y = columns.vertices()
    assert np.array_equal(np.isnan(x), np.isnan(y))
    drawn = y[~np.isnan(y)]
    if finite:
        assert columns.low == drawn.min() == min(v for _, v in finite)
        assert columns.high == drawn.max() == max(v for _, v in finite)
        assert columns.end == finite[-1]
        assert {s for s, _ in finite} >= set(x[~np.isnan(x)].astype(int))
    else:
        assert len(drawn) == 0 and columns.end is None
    if records:
        assert (columns.first_step, columns.last_step) == (min(steps), max(steps))
    bad = [(s, v) for s, v in records if not math.isfinite(v)]
    if bad:
        assert columns.broken.count == len(bad)
        assert columns.broken.first_step == bad[0][0]
        after = records[records.index(bad[0]) :]
        assert columns.broken.to_the_end == (not any(math.isfinite(v) for _, v in after))
    else:
        assert columns.broken is None


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**40), st.integers(1, 1000), st.integers(1, 700))
def test_each_column_shows_its_smallest_and_largest_value(n, start, stride, chunk):
    steps = start + stride * np.arange(n)
    numbers = np.random.default_rng(n).normal(size=n)
    columns = filled(steps, numbers, limit=64, chunks=range(chunk, n, chunk))
    x, y = columns.vertices()
    assert len(x) <= 2 * 64
    if n <= 32:
        assert np.array_equal(x, steps) and np.array_equal(y, numbers)
    shift = 0
    while (int(steps[-1]) >> shift) - (start >> shift) >= 64:
        shift += 1
    for key in np.unique(steps >> shift):
        mine, shown = numbers[steps >> shift == key], y[x.astype(np.int64) >> shift == key]
        assert (shown.min(), shown.max()) == (mine.min(), mine.max())


def test_drawing_is_bounded_however_long_the_run():
    short, long = (filled(np.arange(n), np.sin(np.arange(n))) for n in (1_000, 400_000))
    assert len(long.vertices().x) <= 1024
    assert len(long.vertices().x) <= 1.1 * len(short.vertices().x)
    assert len(long.vertices(128).x) <= 256


def test_records_that_are_not_finite_make_a_hole():
    x, y = filled(range(6), [1, 2, math.nan, 4, math.inf, 6]).vertices()
    assert repr(x.tolist()) == "[0.0, 1.0, nan, 3.0, nan, 5.0]"
    assert repr(y.tolist()) == "[1.0, 2.0, nan, 4.0, nan, 6.0]"


@pytest.mark.parametrize("chunks", [(), (3,), (5,), range(1, 8)])
def test_a_hole_may_lie_between_two_chunks(chunks):
    numbers = [1, 2, 3, math.nan, math.nan, 6, 7, 8]
    x, _ = filled(range(8), numbers, chunks=chunks).vertices()
    assert repr(x.tolist()) == "[0.0, 1.0, 2.0, nan, 5.0, 6.0, 7.0]"


def test_a_restart_that_goes_back_begins_a_new_piece_of_line():
    x, y = filled([0, 1, 2, 3, 2, 3, 4], [9, 8, 7, 6, 7, 6, 5], chunks=(4,)).vertices()
    assert repr(x.tolist()) == "[0.0, 1.0, 2.0, 3.0, nan, 2.0, 3.0, 4.0]"
    assert y[-1] == 5


def test_steps_that_go_back_all_the_time_stay_bounded():
    steps = np.tile(np.arange(100), 2000)
    columns = filled(steps, np.random.default_rng(0).normal(size=len(steps)), chunks=[100, 150])
    assert len(columns.vertices().x) < 33 * 220
    one_by_one = Columns(64)
    for step in np.tile([5, 4, 3, 2, 1], 100):
        one_by_one.add(np.array([step]), np.array([1.0]))
    assert len(one_by_one.vertices().x) < 300


def test_huge_steps_and_values_overflow_nothing():
    with np.errstate(all="raise"):
        columns = filled([-(2**63), 0, 2**63 - 1], [-1.7e308, 0.0, 1.7e308])
        x, y = columns.vertices()
    assert len(x) == 3 and np.isfinite(y).all()
    assert math.isfinite(columns.high - columns.low)
