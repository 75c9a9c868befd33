"""What somebody tried on purpose: each is answered in one sentence, and nothing is left."""

from __future__ import annotations

import os
import signal
import time

import pytest

from loadwrap import JobFailed, JobStalled, JobStopped, LaunchError, torchrun


@pytest.mark.parametrize("warm", [True, False])
def test_ranks_that_do_not_answer_are_said_to(warm, write, tmp_path):
    script = write(
        """
        import os, time
        import loadwrap
        open(f"pid{os.environ['RANK']}", "w").write(str(os.getpid()))
        time.sleep(600)
        """
    )
    run = torchrun(script, nproc_per_node=2, live=False, warm=warm, stall_timeout=4)
    files = [tmp_path / f"pid{rank}" for rank in range(2)]
    end = time.monotonic() + 60
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < end
        run._job.pump(0.05)
    for file in files:
        os.kill(int(file.read_text()), signal.SIGSTOP)
    with pytest.raises(JobStalled, match="rank 0 did not answer, rank 1 did not answer"):
        run.wait()
    assert run._job.ended


def test_a_rank_that_was_ended_from_outside_is_the_first_cold_too(write):
    script = write(
        """
        import os, signal, time
        if os.environ["RANK"] == "1":
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(600)
        """
    )
    with pytest.raises(JobFailed, match=r"Rank 1 of 2 failed first: killed by signal 15"):
        torchrun(script, nproc_per_node=2, live=False, warm=False).wait()


def test_a_pipe_is_no_script(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(LaunchError, match="not an ordinary file"):
        torchrun(tmp_path / "pipe.py", live=False)


def test_a_link_that_leads_nowhere_is_no_script(tmp_path):
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    with pytest.raises(LaunchError, match="leads nowhere"):
        torchrun(tmp_path / "loop.py", live=False)


def test_a_magic_in_a_script_is_told_apart(write):
    with pytest.raises(LaunchError, match="Magics of the notebook do not work"):
        torchrun(write("%matplotlib inline\n"), live=False)


def test_a_working_folder_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LaunchError, match="working folder has been deleted"):
        torchrun("train.py", live=False)


def test_a_long_message_does_not_flood_the_notebook(write):
    with pytest.raises(JobFailed) as caught:
        torchrun(write("raise ValueError('z' * 5_000_000)"), live=False).wait()
    assert len(str(caught.value)) < 10_000
    assert "5,000,0" in str(caught.value)


def test_a_run_folder_that_was_deleted_is_told(write, tmp_path, capsys):
    script = write("import os, shutil; shutil.rmtree(os.environ['LOADWRAP_RUN'])")
    torchrun(script, live=False, runs=tmp_path / "runs").wait()
    assert "was deleted while the job ran" in capsys.readouterr().out


@pytest.mark.parametrize("runs", ["", "ro\0"])
def test_a_name_that_no_folder_has(runs, write):
    with pytest.raises(LaunchError, match="no name of a folder"):
        torchrun(write("print(1)"), live=False, runs=runs)


def test_a_cold_job_that_is_stopped_at_once_says_nothing(write, capfd):
    run = torchrun(write("print(1)"), live=False, warm=False).stop()
    with pytest.raises(JobStopped):
        run.wait()
    assert "Traceback" not in capfd.readouterr().err
