"""Following metrics files: whole lines only, whatever the writer does."""

import json
import math
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadwrap.curves.follow import MetricsFollower
from loadwrap.curves.tail import Tail

names = st.sampled_from(["loss", "lr", "größe/±"])
numbers = st.one_of(st.floats(), st.integers(-(2**60), 2**60))
records = st.lists(
    st.tuples(st.integers(-5, 2**62), st.dictionaries(names, numbers, max_size=3)), max_size=15
)
junk = st.sampled_from(
    [
        b"",
        b"   ",
        b"{",
        b"[1]",
        b"null",
        b'{"step": 1.5, "loss": 1}',
        b'{"step": 1, "x": [1',
        b"2]}",
    ]
    + [b'{"loss": 3}', b"\xff\xfe\x00", b'{"step": 1, "loss": "a"}', b"[" * 5000, b"9" * 6000]
    + [b'{"step": 1}, {"step": 2', b'{"step": 99999999999999999999, "loss": 1}']
)


def file_of(run: Path, rank: int = 0) -> Path:
    (run / "metrics").mkdir(exist_ok=True)
    return run / "metrics" / f"rank{rank}.jsonl"


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def curve_of(follower: MetricsFollower, metric: str, rank: int = 0) -> list[tuple[int, float]]:
    steps, values = follower.curves.curve(metric)[rank]
    assert steps.dtype == np.int64 and values.dtype == np.float64
    return list(zip(steps.tolist(), values.tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(records, st.lists(junk, max_size=4), st.data())
def test_any_chunking_gives_the_same_curves(tmp_path_factory, written, rubbish, data):
    run = tmp_path_factory.mktemp("run")
    lines = [
        json.dumps({"step": step, **metrics}, ensure_ascii=index % 2 == 0).encode()
        for index, (step, metrics) in enumerate(written)
    ]
    for line in rubbish:
        lines.insert(data.draw(st.integers(0, len(lines))), line)
    stream = b"".join(line + b"\n" for line in lines)
    path, follower = file_of(run), MetricsFollower(run)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        append(path, stream[start:stop])
        follower.poll(max_bytes=data.draw(st.integers(1, 200)))
    follower.finish()
    wanted: dict[str, list[tuple[int, float]]] = {}
    for step, metrics in written:
        for name, value in metrics.items():
            wanted.setdefault(name, []).append((step, float(value)))
    assert follower.curves.metrics == tuple(sorted(wanted))
    for name, curve in wanted.items():
        assert repr(curve_of(follower, name)) == repr(curve)


def test_half_a_line_waits_for_its_newline(tmp_path):
    path, follower = file_of(tmp_path), MetricsFollower(tmp_path)
    append(path, b'{"step": 1, "loss": 0.2')
    assert follower.poll()
    assert follower.curves.records == 0
    append(path, b"5}")
    follower.poll()
    assert follower.curves.records == 0
    append(path, b"\n")
    follower.poll()
    assert curve_of(follower, "loss") == [(1, 0.25)]
    assert not follower.poll()


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        (b'{"step": 10, "loss": 0.5}', 2),
        (b'{"step": 10}', 2),
        (b'{"step": 10, "loss": 0.5', 1),
        (b'{"step": 10, "loss": 0.5,', 1),
        (b'{"step": 1', 1),
        (b"10", 1),
        (b"", 1),
    ],
)
def test_at_the_end_a_line_without_newline_counts_only_if_it_is_whole(tmp_path, rest, count):
    append(file_of(tmp_path), b'{"step": 9, "loss": 1.0}\n' + rest)
    follower = MetricsFollower(tmp_path)
    follower.finish()
    assert follower.curves.records == count
    assert follower.skipped == 0


def test_a_half_line_at_the_end_is_still_there_when_its_rest_comes(tmp_path):
    path, follower = file_of(tmp_path), MetricsFollower(tmp_path)
    append(path, b'{"step": 1, "loss": 0.')
    follower.finish()
    append(path, b'5}\n{"step": 2, "loss": 0.25}')
    follower.finish()
    append(path, b"\n")
    follower.finish()
    assert curve_of(follower, "loss") == [(1, 0.5), (2, 0.25)]
    assert follower.skipped == 0


def test_two_broken_lines_never_make_one_record(tmp_path):
    append(file_of(tmp_path), b'{"step": 1, "loss": 0.5, "x": [1\n2]}\n{"step": 2, "loss": 1}\n')
    follower = MetricsFollower(tmp_path)
    follower.finish()
    assert curve_of(follower, "loss") == [(2, 1.0)]
    assert follower.skipped == 2


def test_nan_and_infinity_are_read(tmp_path):
    append(file_of(tmp_path), b'{"step": 1, "a": NaN, "b": Infinity, "c": -Infinity}\n')
    follower = MetricsFollower(tmp_path)
    follower.poll()
    assert math.isnan(curve_of(follower, "a")[0][1])
    assert curve_of(follower, "b") == [(1, math.inf)]
    assert curve_of(follower, "c") == [(1, -math.inf)]


def test_headers_name_world_size_and_attempt_and_are_no_records(tmp_path):
    append(file_of(tmp_path, 1), b'{"header": {"rank": 1, "world_size": 4, "attempt": 0}}\n')
    follower = MetricsFollower(tmp_path)
    assert follower.poll()
    assert follower.curves.world_size == 4
    assert follower.curves.records == follower.skipped == 0
    append(file_of(tmp_path, 1), b'{"header": {"rank": 1, "world_size": 4, "attempt": 1}}\n')
    follower.poll()
    assert follower.curves.headers[1]["attempt"] == 1


def test_ranks_may_come_at_any_time(tmp_path):
    follower = MetricsFollower(tmp_path / "later")
    assert not follower.poll()
    (tmp_path / "later").mkdir()
    append(file_of(tmp_path / "later", 2), b'{"step": 0, "loss": 1}\n')
    assert follower.poll()
    append(file_of(tmp_path / "later", 10), b'{"step": 0, "acc": 1}\n')
    (tmp_path / "later" / "metrics" / "notes.txt").write_text("not ours")
    assert follower.poll()
    assert follower.curves.ranks == (2, 10)
    assert follower.curves.metrics == ("acc", "loss")
    with pytest.raises(KeyError, match="no metric 'los' in this run; it logged: acc, loss"):
        follower.curves.curve("los")


@pytest.mark.parametrize("way", ["truncated", "replaced", "same inode"])
def test_a_replaced_file_is_read_from_its_start(tmp_path, way):
    path, follower = file_of(tmp_path), MetricsFollower(tmp_path)
    append(path, b'{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\n')
    follower.poll()
    new = b'{"step": 7, "acc": 7}\n'
    if way == "truncated":
        path.write_bytes(new)
    elif way == "replaced":
        path.with_suffix(".new").write_bytes(new * 9)
        os.replace(path.with_suffix(".new"), path)
    else:
        path.write_bytes(new * 9)  # longer than before, in the same inode
    follower.finish()
    assert follower.curves.metrics == ("acc",)
    assert curve_of(follower, "acc")[0] == (7, 7.0)
    assert follower.curves.last_step == 7


def test_a_deleted_file_keeps_what_was_read(tmp_path):
    path, follower = file_of(tmp_path), MetricsFollower(tmp_path)
    append(path, b'{"step": 1, "loss": 1}\n')
    follower.poll()
    path.unlink()
    follower.finish()
    assert curve_of(follower, "loss") == [(1, 1.0)]


def test_a_restart_that_goes_back_keeps_both_passes(tmp_path):
    append(file_of(tmp_path), b"".join(b'{"step": %d, "loss": 1}\n' % s for s in (0, 1, 2, 1, 2)))
    follower = MetricsFollower(tmp_path)
    follower.poll()
    assert [step for step, _ in curve_of(follower, "loss")] == [0, 1, 2, 1, 2]
    assert follower.curves.mean("loss")[0].tolist() == [0, 1, 2]


def test_one_look_reads_no_more_than_it_may_and_is_fair(tmp_path):
    for rank in range(4):
        append(file_of(tmp_path, rank), b'{"step": 1, "loss": 0.5}\n' * 4000)
    follower = MetricsFollower(tmp_path)
    follower.poll(max_bytes=40_000)
    counts = [len(steps) for steps, _ in follower.curves.curve("loss").values()]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) * 25 <= 40_000
    follower.catch_up()
    assert follower.curves.records == 16_000


def test_a_flood_is_read_whole_in_bounded_memory(tmp_path):
    ranks, n = 8, 5000
    for rank in range(ranks):
        lines = (f'{{"step": {s}, "loss": {(s * 7919 + rank) % 1000 / 7}}}\n' for s in range(n))
        append(file_of(tmp_path, rank), "".join(lines).encode())
    follower = MetricsFollower(tmp_path)
    tracemalloc.start()
    follower.catch_up()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert follower.curves.records == ranks * n and follower.skipped == 0
    for rank, (steps, values) in follower.curves.curve("loss").items():
        assert np.array_equal(steps, np.arange(n))
        assert np.array_equal(values, (np.arange(n) * 7919 + rank) % 1000 / 7)
    # 16 bytes a record, doubled at worst while an array grows, and one block being parsed.
    assert peak < 48 * ranks * n + 12_000_000


def test_a_line_without_end_does_not_fill_the_memory(tmp_path):
    path, follower = file_of(tmp_path), MetricsFollower(tmp_path)
    append(path, b"x" * 3_000_000)
    follower.catch_up()
    append(path, b'x\n{"step": 1, "loss": 0.5}\n')
    follower.catch_up()
    assert curve_of(follower, "loss") == [(1, 0.5)]
    assert follower.skipped >= 1


def test_a_folder_in_place_of_a_file_is_no_reason_to_raise(tmp_path):
    (tmp_path / "metrics" / "rank0.jsonl").mkdir(parents=True)
    assert not MetricsFollower(tmp_path).poll()
    assert Tail(tmp_path).read(100) == (b"", False, False)
