"""Full disks and read-only ones, before a job and during it: one sentence each."""

import contextlib
import shutil
import subprocess
import time

import pytest

from loadwrap import JobFailed, LaunchError, Run, torchrun


@pytest.fixture
def disk(tmp_path):
    """Mounts a small disk at a folder; only where nobody may mount anything, there is none."""
    place = tmp_path / "disk"
    place.mkdir()

    def as_root(*words):
        for prefix in ([], ["sudo", "-n"]):
            with contextlib.suppress(OSError):
                if subprocess.run([*prefix, *words], capture_output=True).returncode == 0:
                    return True
        return False

    def mounting(size, options="rw"):
        if not as_root("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)):
            pytest.skip("mounting a disk needs root")
        assert options == "rw" or as_root("mount", "-o", f"remount,{options}", str(place))
        return place

    yield mounting
    as_root("umount", "-l", str(place))


def message_of(error):
    lines = str(error.value).splitlines()
    assert "Traceback" not in lines[0] and "Errno" not in lines[0]
    return lines[0]


def test_a_full_disk_is_told_before_anything_starts(disk, write):
    place = disk("1m")
    write("print(1)")
    with pytest.raises(LaunchError) as told:
        torchrun("script.py", live=False, runs=place / "runs")
    assert message_of(told).startswith(f"The disk that holds {place}/runs is full (")
    assert list((place / "runs").iterdir()) == []
    with contextlib.suppress(OSError):
        (place / "fill").write_bytes(bytes(2 << 20))
    with pytest.raises(LaunchError) as told:
        torchrun("script.py", live=False, runs=place / "others")
    assert message_of(told).startswith(f"The disk that holds {place}/others is full")


def test_a_read_only_disk_is_told_before_anything_starts(disk, write):
    place = disk("16m", "ro")
    write("print(1)")
    with pytest.raises(LaunchError) as told:
        torchrun("script.py", live=False, runs=place / "runs")
    assert message_of(told) == (
        f"The disk that holds {place}/runs is read-only; runs=FOLDER puts runs elsewhere."
    )


def test_a_runs_folder_that_is_a_file_or_another_users_is_told(write):
    write("print(1)")
    write("", "file")
    with pytest.raises(LaunchError) as told:
        torchrun("script.py", live=False, runs="file/runs")
    assert "cannot be made (Not a directory)" in message_of(told)
    with pytest.raises(LaunchError) as told:
        torchrun("script.py", live=False, runs="/proc/runs")
    assert "/proc" in message_of(told)


def test_a_disk_that_fills_up_while_the_job_runs(disk, write, warm):
    place = disk("16m")
    write(
        """
        import os, sys
        from loadwrap import log
        if os.environ["RANK"] == "0":
            for step in range(100_000):
                log(step, loss=1.0)
                print("x" * 1000)
        import time
        time.sleep(600)
        """
    )
    with pytest.raises(JobFailed) as failed:
        torchrun(
            "script.py", nproc_per_node=2, live=False, warm=warm, runs=place / "runs",
        ).wait()  # fmt: skip
    if warm:  # a cold torchrun has no room left to say which rank it was
        assert failed.value.rank == 0
    assert message_of(failed).endswith("A disk is full: free some space, or write somewhere else.")
    steps, _ = Run.open(failed.value.directory).curve("loss")[0]
    assert len(steps) > 1000


def test_a_rank_that_meets_a_full_disk_is_told(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            with open("/dev/full", "w") as file:
                file.write("a checkpoint")
            """,
            nproc_per_node=1,
            warm=warm,
        )
    assert message_of(failed) == (
        "Rank 0 of 1 failed first: OSError, exit code 1. A disk is full: free some space, or "
        "write somewhere else."
    )


def test_a_run_folder_that_vanishes_does_not_hang_the_job(launch, write):
    run = torchrun(
        write(
            """
            import time
            print("in", flush=True)
            time.sleep(1)
            """
        ),
        nproc_per_node=2,
        live=False,
    )
    while len(run.ranks) < 2 or not all("in" in run.stdout(rank) for rank in range(2)):
        time.sleep(0.01)
    shutil.rmtree(run.directory)
    assert run.wait().state == "finished"


def test_output_that_is_not_text_is_shown_all_the_same(launch, warm):
    run = launch(
        r"""
        import sys
        sys.stdout.buffer.write(b"\xff\xfe caf\xe9\n")
        print("ünïcode ✓")
        """,
        warm=warm,
    )
    assert run.stdout(0).endswith("ünïcode ✓\n")
    assert run.stdout(1).count("\n") == 2
