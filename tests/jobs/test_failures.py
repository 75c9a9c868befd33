"""A job that fails says which rank failed first, why, and where everything it wrote lies."""

import os
import signal
import socket
import time

import pytest

from loadwrap import JobFailed, Run, torchrun

_FAIL = """
    import datetime, os, random, signal, sys, time
    import torch
    import torch.distributed as dist

    def fail(how):
        if how == "raise":
            raise KeyError("the cause")
        if how == "wrapped":
            try:
                {}["the cause"]
            except KeyError as error:
                raise RuntimeError("could not go on") from error
        if how == "exit":
            os._exit(3)  # sys.exit may end in an abort by gloo, whose group is still there
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "segv":
            import ctypes
            ctypes.string_at(0)

    def train(how, seed):
        rank, world = dist.get_rank(), dist.get_world_size()
        draw = random.Random(seed)
        bad, step = draw.randrange(world), draw.randrange(3)
        time.sleep(draw.random() / 5)
        for number in range(1000):
            if number == step and rank == bad:
                fail(how)
            dist.all_reduce(torch.ones(10_000))

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    train(sys.argv[1], int(sys.argv[2]))
    dist.destroy_process_group()
"""


def the_bad_rank(seed, world):
    import random

    return random.Random(seed).randrange(world)


CODES = {"raise": 1, "wrapped": 1, "exit": 3, "kill": -signal.SIGKILL, "segv": -signal.SIGSEGV}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", CODES)
def test_the_rank_that_failed_first_is_named_warm(how, seed, launch):
    blame(how, seed, launch, warm=True)


@pytest.mark.parametrize(("how", "seed"), [("raise", 3), ("kill", 4), ("exit", 5)])
def test_the_rank_that_failed_first_is_named_cold(how, seed, launch):
    blame(how, seed, launch, warm=False)


def blame(how, seed, launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch(_FAIL, how, seed, nproc_per_node=4, warm=warm)
    error = failed.value
    bad = the_bad_rank(seed, 4)
    assert error.rank == bad
    # A rank that raises while its process group is there may be aborted by gloo as it ends.
    aborted = how in ("raise", "wrapped") and error.exitcode == -signal.SIGABRT
    assert aborted or error.exitcode == CODES[how]
    headline, where, *trace = str(error).splitlines()
    assert headline.startswith(f"Rank {bad} of 4 failed first: ")
    assert where == f"Everything it wrote is in {os.path.relpath(error.directory)}"
    assert "torch/distributed/elastic" not in str(error)
    assert len(error.traceback.splitlines()) < 25
    if how == "raise":
        assert "KeyError" in headline
        assert trace[-1] == "KeyError: 'the cause'"
    if how == "wrapped":
        assert "KeyError: 'the cause'" in trace
        assert trace[-1] == "RuntimeError: could not go on"
    if how == "exit":
        assert headline.endswith("it left with exit code 3 and no traceback.")
    if how == "kill":
        assert "killed by signal 9 (SIGKILL)" in headline and "out of memory" in headline
    if how == "segv":
        assert headline.endswith("killed by signal 11 (SIGSEGV).")
    assert Run.open(error.directory).state == "failed"


def test_a_traceback_that_was_handled_is_no_failure(launch, warm):
    run = launch(
        """
        import traceback
        try:
            1 / 0
        except ZeroDivisionError:
            traceback.print_exc()
        """,
        warm=warm,
    )
    assert run.state == "finished"
    assert "ZeroDivisionError" in run.stderr(1)


def test_the_traceback_is_the_users_alone(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            import json

            def read(text):
                return json.loads(text)

            read("{")
            """,
            warm=warm,
            nproc_per_node=1,
        )
    lines = failed.value.traceback.splitlines()
    assert [line.split(", ")[1:] for line in lines if line.startswith("  File ")] == [
        ["line 7", "in <module>"],
        ["line 5", "in read"],
    ]
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    assert failed.value._render_traceback_()[-1] == lines[-1]


def test_a_message_that_is_an_exit_code_is_shown(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch("import sys; sys.exit('the data are not there')", nproc_per_node=1, warm=warm)
    assert failed.value.exitcode == 1
    assert "the data are not there" in str(failed.value)


def test_a_failure_before_and_after_leaves_the_next_job_alone(launch):
    with pytest.raises(JobFailed):
        launch("raise ValueError")
    assert launch("print('well')").stdout(1) == "well\n"


def test_a_port_in_use_is_named(launch, warm):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(JobFailed) as failed:
            launch("print(1)", master_addr="127.0.0.1", master_port=port, warm=warm)
    headline, where = str(failed.value).splitlines()
    assert f"Port {port} is in use" in headline
    assert where.startswith("Everything it wrote is in runs/")


def test_what_torchrun_itself_says_is_one_sentence(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch("print(1)", nproc_per_node="gpu", warm=warm)
    headline, where = str(failed.value).splitlines()
    assert headline.startswith("torchrun itself failed") and "Cuda is not available" in headline
    assert failed.value.rank is None


def test_torchrun_itself_killed_is_no_ranks_fault(write, warm):
    write("import time; print('in', flush=True); time.sleep(600)")
    run = torchrun("script.py", nproc_per_node=2, live=False, warm=warm)
    while not (len(run.ranks) == 2 and all(run.stdout(rank) for rank in range(2))):
        time.sleep(0.02)
    assert not run._job.ended
    os.kill(run._job.agent, signal.SIGKILL)
    with pytest.raises(JobFailed) as failed:
        run.wait()
    assert (failed.value.rank, failed.value.exitcode) == (None, -9)
    assert str(failed.value).splitlines()[0] == (
        "torchrun itself was killed by signal 9; its ranks were ended with it."
    )


def test_a_module_is_run_as_python_runs_it(write, tmp_path):
    write("", "package/__init__.py")
    write(
        """
        import os, sys
        from . import other
        print(__name__, __spec__.name, other.x, sys.argv[1:], sys.path[0] == os.getcwd())
        """,
        "package/__main__.py",
    )
    write("x = 7", "package/other.py")
    for warm in (True, False):
        run = torchrun("package", "--a", module=True, live=False, warm=warm).wait()
        assert run.stdout(0) == "__main__ package.__main__ 7 ['--a'] True\n"
    with pytest.raises(JobFailed) as failed:
        torchrun("no_such_module", module=True, live=False).wait()
    assert "No module named no_such_module" in str(failed.value)
