"""Curves out of the output of scripts that never heard of ``log``."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadwrap.curves.follow import PatternFollower

STEP_LOSS = r"step (?P<step>[\d,]+).*loss (?P<loss>\S+)"


def read(path: Path, text: str | bytes, pattern: str = STEP_LOSS, **options) -> PatternFollower:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    follower = PatternFollower({0: [path]}, pattern, **options)
    follower.finish()
    return follower


def curve_of(follower: PatternFollower, metric: str = "loss", rank: int = 0):
    steps, values = follower.curves.curve(metric)[rank]
    return list(zip(steps.tolist(), values.tolist(), strict=True))


texts = st.lists(
    st.sampled_from(
        ["step 1 loss 0.5", "step 2 loss nan", "[rank3]: step 4 loss 2", "größe ±", "", "noise"]
        + ["\x1b[32mstep 5\x1b[0m loss 1e-3", "step 1,000 loss 3", "step x loss y", "step 2 loss 8"]
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(texts, st.sampled_from(["\n", "\r", "\r\n"]), st.booleans(), st.data())
def test_any_chunking_gives_the_same_curves(tmp_path_factory, lines, end, ended, data):
    folder = tmp_path_factory.mktemp("log")
    stream = (end.join(lines) + (end if ended else "")).encode()
    whole = folder / "whole"
    whole.write_bytes(stream)
    expected = PatternFollower.of_log(whole, STEP_LOSS)
    expected.finish()
    path = folder / "pieces"
    follower = PatternFollower.of_log(path, STEP_LOSS)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        with open(path, "ab") as file:
            file.write(stream[start:stop])
        follower.poll(max_bytes=data.draw(st.integers(1, 60)))
    follower.finish()
    assert follower.curves.metrics == expected.curves.metrics
    assert (follower.lines, follower.skipped) == (expected.lines, expected.skipped)
    for metric in expected.curves.metrics:
        for rank in expected.curves.curve(metric):
            assert repr(curve_of(follower, metric, rank)) == repr(curve_of(expected, metric, rank))


def test_steps_losses_and_other_named_groups(tmp_path):
    follower = read(
        tmp_path / "log",
        "start\nstep 1,200 | lr 1e-4 | loss 2.5, ok\nstep 1,201 | lr x | loss inf\n",
        r"step (?P<step>[\d,]+) \| lr (?P<lr>\S+) \| loss (?P<loss>\S+)",
    )
    assert curve_of(follower) == [(1200, 2.5), (1201, float("inf"))]
    assert curve_of(follower, "lr") == [(1200, 1e-4)]
    assert follower.lines == 3


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0.25,", 0.25),
        ("tensor(0.25,", 0.25),
        ("tensor(0.25)", 0.25),
        ("1,234.5", 1234.5),
        ("95%", 95.0),
        ("-1e-05", -1e-5),
        ("[0.5]", 0.5),
        ("Infinity", float("inf")),
    ],
)
def test_numbers_as_people_print_them(tmp_path, printed, value):
    assert curve_of(read(tmp_path / "log", f"step 3 loss {printed}")) == [(3, value)]


@pytest.mark.parametrize("printed", ["none", "--", "1.2.3"])
def test_what_is_no_number_is_skipped_and_counted(tmp_path, printed):
    follower = read(tmp_path / "log", f"step 1 loss {printed}\nstep 2 loss 1\n")
    assert curve_of(follower) == [(2, 1.0)]
    assert follower.skipped == 1


def test_without_a_step_the_matches_are_counted_by_rank(tmp_path):
    for rank in (0, 1):
        (tmp_path / str(rank)).write_text("loss 3\nother\nloss 2\nloss 2\n")
    files = {0: [tmp_path / "0"], 1: [tmp_path / "1"]}
    follower = PatternFollower(files, r"loss (?P<loss>\S+)")
    follower.finish()
    assert curve_of(follower, rank=0) == curve_of(follower, rank=1) == [(0, 3), (1, 2), (2, 2)]


def test_a_progress_bar_counts_each_state_once(tmp_path):
    bar = "\r  0%| | 0/3\r 33%|# | 1/3 loss=2.0\r 33%|# | 1/3 loss=2.0\r 66%|##| 2/3 loss=1.5"
    follower = read(tmp_path / "log", bar, r"\| (?P<step>\d+)/3 loss=(?P<loss>\S+)")
    assert curve_of(follower) == [(1, 2.0), (2, 1.5)]


def test_colours_are_removed(tmp_path):
    coloured = "\x1b[1mstep\x1b[0m 4 \x1b]8;;http://x\x07link\x1b]8;;\x07 loss \x1b[31m0.5\x1b[0m\n"
    assert curve_of(read(tmp_path / "log", coloured)) == [(4, 0.5)]


def test_bytes_that_are_no_text_do_no_harm(tmp_path):
    text = b"\xff\xfe\nstep 1 loss 2 \xc3\nstep 2 loss 2\xc3\n"
    assert curve_of(read(tmp_path / "log", text)) == [(1, 2.0)]


@pytest.mark.parametrize("prefix", ["[rank3]:", "[default3]:", "  [rank3]: "])
def test_torchruns_line_prefix_names_the_rank_in_a_plain_log(tmp_path, prefix):
    path = tmp_path / "slurm-1.out"
    path.write_text(f"step 1 loss 1\n{prefix}step 1 loss 2\n[epoch2]: step 2 loss 3\n")
    follower = PatternFollower.of_log(path, STEP_LOSS)
    follower.finish()
    assert curve_of(follower, rank=3) == [(1, 2.0)]
    assert curve_of(follower, rank=0) == [(1, 1.0), (2, 3.0)]


def test_a_rank_group_goes_before_everything(tmp_path):
    follower = read(
        tmp_path / "log",
        "[rank3]: r5 step 1 loss 2\n",
        r"r(?P<rank>\d+) step (?P<step>\d+) loss (?P<loss>\S+)",
        prefixes=True,
    )
    assert follower.curves.ranks == (5,)


def test_an_unfinished_line_waits_while_the_job_runs(tmp_path):
    path = tmp_path / "log"
    path.write_text("step 1 loss 0.2")
    follower = PatternFollower({0: [path]}, STEP_LOSS)
    follower.catch_up()
    assert follower.curves.metrics == ()
    with open(path, "a") as file:
        file.write("5\n")
    follower.catch_up()
    assert curve_of(follower) == [(1, 0.25)]


def test_files_may_come_later_and_be_several_a_rank(tmp_path):
    follower = PatternFollower(lambda: {0: sorted(tmp_path.glob("*.log"))}, r"loss (?P<loss>\S+)")
    assert not follower.poll()
    (tmp_path / "attempt_0.log").write_text("loss 3\n")
    follower.poll()
    (tmp_path / "attempt_1.log").write_text("loss 2")
    follower.finish()
    assert curve_of(follower) == [(0, 3.0), (1, 2.0)]


def test_a_replaced_log_is_read_anew(tmp_path):
    path = tmp_path / "log"
    follower = read(path, "step 1 loss 1\nstep 2 loss 2\n")
    path.write_text("step 9 loss 9\n")
    follower.finish()
    assert curve_of(follower) == [(9, 9.0)]
    assert follower.lines == 1


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"loss (?P<loss>\S+", "not a valid regular expression"),
        (r"loss \S+", "names no metric"),
        (r"step (?P<step>\d+) rank (?P<rank>\d+)", "names no metric"),
    ],
)
def test_a_pattern_that_finds_nothing_is_told_in_one_sentence(pattern, words):
    with pytest.raises(ValueError, match=words) as caught:
        PatternFollower({}, pattern)
    assert "\n" not in str(caught.value)
