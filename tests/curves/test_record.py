"""``log``: what it writes, what it refuses, and that it never ends a training."""

import json
import math
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loadwrap.curves import record
from loadwrap.curves.follow import MetricsFollower
from loadwrap.curves.record import log


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADWRAP_RUN", str(tmp_path))
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(record, "_sink", None)
    return tmp_path


def lines_of(run: Path, rank: int = 0) -> list[str]:
    return (run / "metrics" / f"rank{rank}.jsonl").read_text().splitlines()


def records_of(run: Path, rank: int = 0) -> list[dict]:
    return [r for r in map(json.loads, lines_of(run, rank)) if "header" not in r]


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_a_run_folder_it_does_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("LOADWRAP_RUN", raising=False)
    monkeypatch.setattr(record, "_sink", None)
    monkeypatch.chdir(tmp_path)
    log(1, loss=0.5)
    assert list(tmp_path.iterdir()) == []


def test_the_first_line_says_who_writes(run, monkeypatch):
    for name, value in {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    log(12, loss=0.25, lr=0.1)
    header, first = map(json.loads, lines_of(run, 3))
    assert header["header"]["pid"] == os.getpid()
    wanted = {"rank": 3, "local_rank": 1, "world_size": 4, "attempt": 2, "backend": None}
    assert wanted.items() <= header["header"].items()
    assert isinstance(header["header"]["time_ns"], int)
    assert first == {"step": 12, "loss": 0.25, "lr": 0.1}


@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=20))
def test_floats_come_back_exactly(values):
    sink_lines: list[bytes] = []

    class Caught:
        dropped = 0

        def write(self, line: bytes) -> None:
            sink_lines.append(line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "_sink", Caught())
        for step, value in enumerate(values):
            log(step, loss=value)
    back = [json.loads(line)["loss"] for line in sink_lines]
    assert list(map(repr, back)) == list(map(repr, values))
    assert all(line.count(b"\n") == 1 and line.endswith(b"}\n") for line in sink_lines)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (3, 3),
        (True, 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (np.int64(7), 7),
        (np.array([0.5]), 0.5),
        (torch.tensor(0.25), 0.25),
        (torch.tensor([0.25], requires_grad=True), 0.25),
        (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
        (torch.tensor(4), 4),
        (float("inf"), math.inf),
        (np.float32("-inf"), -math.inf),
        (10**30, 1e30),
    ],
)
def test_anything_that_is_one_number_is_taken(run, value, kept):
    log(0, x=value)
    assert records_of(run) == [{"step": 0, "x": kept}]


@pytest.mark.parametrize("step", [np.int64(5), torch.tensor(5), 5])
def test_any_integer_is_a_step(run, step):
    log(step, x=1.0)
    assert records_of(run)[0]["step"] == 5


def test_nan_is_kept(run):
    log(0, x=float("nan"), y=torch.tensor(float("nan")))
    assert all(math.isnan(records_of(run)[0][name]) for name in "xy")


@pytest.mark.parametrize(
    ("step", "metrics", "error", "words"),
    [
        (1.5, {"loss": 1.0}, TypeError, "integer step"),
        ("1", {"loss": 1.0}, TypeError, "integer step"),
        (None, {"loss": 1.0}, TypeError, "integer step"),
        (True, {"loss": 1.0}, TypeError, "integer step"),
        (2**63, {"loss": 1.0}, ValueError, "too large"),
        (1, {"loss": "0.5"}, TypeError, "'loss' must be a number"),
        (1, {"loss": None}, TypeError, "'loss' must be a number"),
        (1, {"loss": [1.0]}, TypeError, "'loss' must be a number"),
        (1, {"loss": 1j}, TypeError, "'loss' must be a number"),
        (1, {"loss": 10**400}, ValueError, "too large"),
        (1, {"loss": np.zeros(2)}, ValueError, "one number"),
        (1, {"loss": torch.zeros(4)}, ValueError, r"shape \(4,\).*loss.mean\(\)"),
        (1, {"header": 1.0}, ValueError, "cannot be called 'header'"),
    ],
)
def test_bad_input_gets_one_sentence_and_writes_nothing(run, step, metrics, error, words):
    log(0, loss=1.0)
    with pytest.raises(error, match=words) as caught:
        log(step, **metrics)
    assert "\n" not in str(caught.value)
    assert records_of(run) == [{"step": 0, "loss": 1.0}]


def test_a_metric_called_step_is_refused(run):
    with pytest.raises(TypeError, match="step"):
        log(1, **{"step": 2})


def test_names_need_not_be_identifiers(run):
    log(0, **{'loss/"train"': 1.0, "größe": 2.0})
    assert records_of(run) == [{"step": 0, 'loss/"train"': 1.0, "größe": 2.0}]


def test_threads_never_glue_lines(run):
    def work(thread: int) -> None:
        for step in range(300):
            log(step, thread=thread, value=step / 7)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines_of(run)) == 1 + 6 * 300
    for index in range(6):
        mine = [r["step"] for r in records_of(run) if r["thread"] == index]
        assert mine == list(range(300))


def test_a_forked_worker_appends_to_the_same_file(tmp_path):
    done = python(
        """
        import os
        from loadwrap import log
        log(0, loss=1.0)
        for worker in range(3):
            if os.fork() == 0:
                for step in range(50):
                    log(step, worker=worker)
                os._exit(0)
        for _ in range(3):
            os.wait()
        log(1, loss=0.5)
        """,
        LOADWRAP_RUN=str(tmp_path),
    )
    assert done.stderr == ""
    headers = [line for line in lines_of(tmp_path) if "header" in line]
    assert ["ended_ns" in line for line in headers] == [False, True]  # the workers say nothing
    found = records_of(tmp_path)
    assert len(found) == 152
    assert found[0] == {"step": 0, "loss": 1.0}
    assert found[-1] == {"step": 1, "loss": 0.5}


def test_importing_log_is_cheap():
    done = python(
        """
        import sys
        from loadwrap import log
        log(1, loss=2.0)
        heavy = {"numpy", "torch", "matplotlib", "PIL", "multiprocessing", "subprocess", "asyncio"}
        print(sorted(heavy & set(sys.modules)))
        """,
        RANK="0",
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_full_disk_is_said_once_and_training_goes_on(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "rank0.jsonl").symlink_to("/dev/full")
    done = python(
        """
        from loadwrap import log
        from loadwrap.curves.record import dropped
        for step in range(100):
            log(step, loss=1.0)
        print(dropped())
        """,
        LOADWRAP_RUN=str(tmp_path),
    )
    assert done.returncode == 0
    assert done.stdout.strip() == "100"
    warning, count = done.stderr.splitlines()
    assert "rank0.jsonl" in warning and "No space left" in warning and "free space" in warning
    assert "100 records are missing" in count


def test_a_record_cut_short_never_glues_to_the_next(tmp_path):
    done = python(
        """
        import os, resource, signal
        from loadwrap import log
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log(0, loss=1.0)
        size = os.stat(os.environ["LOADWRAP_RUN"] + "/metrics/rank0.jsonl").st_size
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 9, hard))
        log(1, loss=2.0)
        log(2, loss=3.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        log(3, loss=4.0)
        log(4, loss=5.0)
        """,
        LOADWRAP_RUN=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "2 records are missing" in done.stderr
    follower = MetricsFollower(tmp_path)
    follower.finish()
    steps, values = follower.curves.curve("loss")[0]
    assert steps.tolist() == [0, 3, 4]
    assert values.tolist() == [1.0, 4.0, 5.0]
    assert follower.skipped == 1


def test_a_folder_that_vanished_is_said_once(run, capsys, monkeypatch):
    import shutil

    log(0, loss=1.0)
    shutil.rmtree(run)
    monkeypatch.setattr(record._sink, "_look_at", 0.0)
    for step in range(5):
        log(step, loss=1.0)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "rank0.jsonl" in said
    assert record.dropped() == 5
    assert not run.exists()
    run.mkdir()  # for the fixture's own cleaning up


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOADWRAP_RUN", str(tmp_path / "file" / "run"))
    monkeypatch.setattr(record, "_sink", None)
    for step in range(5):
        log(step, loss=1.0)
    assert capsys.readouterr().err.count("\n") == 1
    assert record.dropped() == 5


def test_a_line_left_unfinished_by_a_killed_rank_is_closed_first(run):
    (run / "metrics").mkdir()
    (run / "metrics" / "rank0.jsonl").write_text('{"step": 1, "lo')
    log(2, loss=0.5)
    assert lines_of(run)[0] == '{"step": 1, "lo'
    assert json.loads(lines_of(run)[-1]) == {"step": 2, "loss": 0.5}


@pytest.mark.parametrize("reused", [True, False])
def test_a_descriptor_closed_by_others_is_not_written_to(run, tmp_path, monkeypatch, reused):
    log(0, loss=1.0)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    if reused:
        os.dup2(other, record._sink._fd)
    else:
        os.close(record._sink._fd)
    monkeypatch.setattr(record._sink, "_look_at", 0.0)
    log(1, loss=2.0)
    assert (tmp_path / "other").read_bytes() == b""
    assert [r["step"] for r in records_of(run)] == [0, 1]
    os.close(other)
