"""The mean over ranks: exact, and the same at once or as the records come in."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadwrap.curves.store import Curves

chunks = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.tuples(st.integers(0, 12), st.floats(allow_infinity=False)), max_size=6),
    ),
    max_size=14,
)


def by_hand(curves: Curves, *, complete: bool) -> list[tuple[int, float]]:
    last = {}
    for rank, (steps, values) in curves.curve("loss").items():
        last[rank] = dict(zip(steps.tolist(), values.tolist(), strict=True))
    mean = []
    for step in sorted(set().union(*last.values())):
        found = [last[rank][step] for rank in sorted(last) if step in last[rank]]
        if len(found) == len(last) or not complete:
            total = np.float64(0)
            with np.errstate(all="ignore"):
                for value in found:
                    total = total + value
                mean.append((step, float(total / len(found)) + 0.0))
    return mean


def pairs(steps, values):
    return [(s, v + 0.0) for s, v in zip(steps.tolist(), values.tolist(), strict=True)]


@settings(deadline=None, max_examples=200)
@given(chunks)
def test_the_mean_is_that_of_the_definition(writes):
    curves = Curves()
    for rank, records in writes:
        curves.extend(rank, "loss", [s for s, _ in records], [v for _, v in records])
        if curves.metrics:
            live = curves.live_mean("loss")
            assert np.all(np.diff(live.steps) > 0)
    if not curves.metrics:
        return
    assert repr(pairs(*curves.mean("loss"))) == repr(by_hand(curves, complete=False))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=30), st.data())
def test_the_live_mean_holds_every_step_that_all_ranks_logged(writes, data):
    """Each rank logs some of the steps, in order, at its own speed, and may go back once."""
    curves, at = Curves(), [0, 0, 0, 0]
    stride = data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=4))
    back = data.draw(st.integers(0, 30))
    for index, (rank, n) in enumerate(writes):
        if index == back:
            at[rank] = max(0, at[rank] - 4)
        steps = [at[rank] + stride[rank] * k for k in range(n)]
        at[rank] = steps[-1] + stride[rank]
        curves.extend(rank, "loss", steps, [math.sin(s + rank + index) for s in steps])
        if data.draw(st.booleans()):
            curves.live_mean("loss")
    if curves.metrics:
        live = curves.live_mean("loss")
        assert pairs(live.steps, live.values) == by_hand(curves, complete=True)


def test_equal_steps_are_summed_in_the_order_of_ranks():
    curves = Curves()
    numbers = np.random.default_rng(0).normal(size=(3, 50))
    for rank in (2, 0, 1):
        curves.extend(rank, "loss", np.arange(50), numbers[rank])
    steps, values = curves.mean("loss")
    assert np.array_equal(steps, np.arange(50))
    assert np.array_equal(values, (numbers[0] + numbers[1] + numbers[2]) / 3)


def test_a_rank_with_nan_makes_the_mean_nan_there_only():
    curves = Curves()
    curves.extend(0, "loss", [0, 1, 2], [1.0, 1.0, 1.0])
    curves.extend(1, "loss", [0, 1, 2], [3.0, math.nan, 3.0])
    assert repr(curves.mean("loss")[1].tolist()) == "[2.0, nan, 2.0]"
    assert repr(curves.live_mean("loss").values.tolist()) == "[2.0, nan, 2.0]"


def test_a_metric_of_one_rank_is_its_own_mean():
    curves = Curves()
    curves.extend(0, "accuracy", [10, 20], [0.5, 0.6])
    curves.extend(1, "loss", [10, 20], [0.5, 0.6])
    assert curves.mean("accuracy")[1].tolist() == [0.5, 0.6]


def test_what_is_returned_is_a_copy():
    curves = Curves()
    curves.extend(0, "loss", [0, 1], [1.0, 2.0])
    curves.curve("loss")[0][1][:] = 99
    curves.mean("loss")[1][:] = 99
    assert curves.curve("loss")[0][1].tolist() == [1.0, 2.0]
