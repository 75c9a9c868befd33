"""Runs against runs: in one figure, and to the last bit."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from loadwrap import first_difference, plot_runs
from loadwrap.curves.store import Curves


def run_of(by_rank: dict[int, dict[int, float]], metric: str = "loss") -> Curves:
    curves = Curves()
    for rank, records in by_rank.items():
        curves.extend(rank, metric, list(records), list(records.values()))
    return curves


def line(start: int, stop: int, **changed: float) -> dict[int, float]:
    values = {step: 1 / (step + 3) for step in range(start, stop)}
    return values | {int(name[1:]): value for name, value in changed.items()}


def test_equal_runs_do_not_differ():
    run = run_of({0: line(0, 50), 1: line(0, 50)})
    assert first_difference(run, run_of({1: line(0, 50), 0: line(0, 50)}), "loss") is None


def test_the_last_bit_counts():
    base, off = line(0, 50), line(0, 50)
    off[37] = np.nextafter(off[37], 1)
    found = first_difference(run_of({0: base}), run_of({0: off}))
    assert found == (37, 0, off[37] - base[37])
    assert [type(part) for part in found] == [int, int, float]


def test_the_smallest_step_goes_before_the_smallest_rank():
    base = {rank: line(0, 9) for rank in range(3)}
    other = {0: line(0, 9, s8=5.0), 1: line(0, 9, s4=5.0), 2: line(0, 9, s4=6.0)}
    assert first_difference(run_of(base), run_of(other)) == (4, 1, 5.0 - 1 / 7)
    assert first_difference(run_of(other), run_of(base)) == (4, 1, 1 / 7 - 5.0)


def test_nan_equals_nan_and_infinities_themselves():
    values = {0: math.nan, 1: math.inf, 2: -math.inf, 3: 0.0}
    assert first_difference(run_of({0: values}), run_of({0: values | {3: -0.0}})) is None
    step, rank, difference = first_difference(run_of({0: values}), run_of({0: values | {0: 1.0}}))
    assert (step, rank) == (0, 0) and math.isnan(difference)
    assert first_difference(run_of({0: values}), run_of({0: values | {2: 0.0}})) == (2, 0, math.inf)


def test_a_resumed_run_is_held_against_the_tail_of_a_whole_one():
    whole, resumed = run_of({0: line(0, 100)}), run_of({0: line(60, 90)})
    assert first_difference(whole, resumed) is None
    assert first_difference(whole, run_of({0: line(60, 90, s71=0.0)})) == (71, 0, -1 / 74)


def test_a_step_that_only_one_logged_is_a_difference():
    some = {step: value for step, value in line(0, 20).items() if step != 7}
    for pair in ((line(0, 20), some), (some, line(0, 20))):
        step, rank, difference = first_difference(*(run_of({0: one}) for one in pair))
        assert (step, rank) == (7, 0) and math.isnan(difference)
    both = first_difference(run_of({0: line(0, 20, s5=9.0)}), run_of({0: some}))
    assert both == (5, 0, 1 / 8 - 9.0)


def test_of_a_step_logged_twice_the_last_record_counts():
    restarted = Curves()
    restarted.extend(0, "loss", [0, 1, 2, 1, 2, 3], [1, 7, 8, 0.5, 0.25, 0.125])
    assert first_difference(restarted, run_of({0: {0: 1, 1: 0.5, 2: 0.25, 3: 0.125}})) is None


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({0: line(0, 9)}, {0: line(0, 9), 1: line(0, 9)}, r"different ranks \(0 and 0, 1\)"),
        ({0: line(0, 9)}, {0: line(60, 70)}, "rank 0 logged 0 to 8 in one and 60 to 69"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_sentence(one, other, words):
    with pytest.raises(ValueError, match=words) as caught:
        first_difference(run_of(one), run_of(other))
    assert "\n" not in str(caught.value)


def test_an_unknown_metric_names_the_run_and_those_there_are():
    run = run_of({0: line(0, 9)})
    with pytest.raises(ValueError, match=r"second run: there is no metric 'loss'.*logged: acc\."):
        first_difference(run, run_of({0: line(0, 9)}, "acc"))
    with pytest.raises(ValueError, match=r"run 'new': there is no metric 'acc'.*logged: loss\."):
        plot_runs({"new": run}, "acc")


@pytest.mark.parametrize("layout", ["overlay", "side"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_any_number_of_runs_in_one_figure(layout, count, tmp_path):
    runs = {f"run {k}": run_of({r: line(k, 30 + k) for r in range(3)}) for k in range(count)}
    picture = plot_runs(runs, "loss", layout=layout, resumed_at=10, predicted=0.2)
    path = picture.save(tmp_path / "runs.png")
    assert path.read_bytes() == picture.png()
    image = Image.open(io.BytesIO(picture.png()))
    assert image.width == 1440 and image.height in (600, 500 * -(-count // 2), 460 * -(-count // 3))
    assert len(picture.png()) < 70_000
    assert repr(picture) == f"<figure of loss: {', '.join(runs)}>"


def test_each_panel_may_have_lines_of_its_own():
    runs = {"a": run_of({0: line(0, 9)}), "b": run_of({0: line(0, 9)})}
    both = plot_runs(runs, layout="side", predicted=0.2).png()
    one = plot_runs(runs, layout="side", predicted={"a": 0.2}).png()
    none = plot_runs(runs, layout="side").png()
    assert len({both, one, none}) == 3


def test_runs_full_of_nan_are_drawn():
    plot_runs({"a": run_of({0: {0: math.nan, 1: math.nan}}), "b": run_of({0: line(0, 3)})})


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (([1, 2],), {}, TypeError, "runs by name"),
        (({"a": 3},), {}, TypeError, "runs by name"),
        (({},), {}, ValueError, "at least one run"),
        (({"a": run_of({0: line(0, 3)})},), {"layout": "x"}, ValueError, '"overlay" or "side"'),
    ],
)
def test_bad_calls_get_one_sentence(arguments, options, error, words):
    with pytest.raises(error, match=words):
        plot_runs(*arguments, **options)
