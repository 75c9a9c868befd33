"""Stop: the job is gone within two seconds, whatever its ranks are doing."""

import json
import time

import psutil
import pytest

from kernels import WITHIN, Kernel, alive, gone
from loadwrap import JobStopped, LaunchError, Run, torchrun
from loadwrap.jobs import client

# Rank 0 waits in a collective, where no Python code of its own can run; rank 1 never comes.
_BLOCKED = """
    import os, time
    import torch.distributed as dist
    dist.init_process_group("gloo")
    print("in", flush=True)
    if dist.get_rank() == 0:
        dist.barrier()
    time.sleep(600)
"""

_KERNEL = """
    import os, time
    from loadwrap import torchrun, JobStopped
    if {idle}:
        torchrun("idle.py", live=False).wait()  # the host is ready now
    say("launching")
    try:
        torchrun("script.py", nproc_per_node=2, live=True, warm={warm})
    except KeyboardInterrupt as error:
        say("stopped", type(error).__name__)
    time.sleep({after})
"""


def until(condition, timeout=30.0):
    end = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def printed(folder, word, ranks=2):
    """Waits until every rank has printed a word."""
    until(
        lambda: (
            sum(word in p.read_text() for p in folder.glob("runs/*/logs/*/*/*/stdout.log")) >= ranks
        )
    )


@pytest.fixture
def kernel(tmp_path, write):
    write("print(1)", "idle.py")
    started = []

    def starting(code, **env):
        started.append(Kernel(code, tmp_path, env))
        return started[-1]

    yield starting
    for one in started:
        one.close()


def test_a_stop_ends_ranks_that_are_blocked(kernel, write, tmp_path, warm):
    write(_BLOCKED)
    one = kernel(_KERNEL.format(warm=warm, idle=False, after=600))
    printed(tmp_path, "in")
    job = {
        pid: process
        for pid, process in one.family().items()
        if not warm or process.ppid() != one.pid  # all but the warm host
    }
    assert len(job) >= 3
    one.interrupt()
    took = gone(job, WITHIN)
    assert took is not None, [p.cmdline() for p in alive(job)]
    assert one.hear("stopped") == "JobStopped"


def test_a_second_stop_ends_them_at_once(kernel, write, tmp_path, warm):
    write(
        """
        import signal, time
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, lambda *_: print("no", flush=True))
        print("in", flush=True)
        while True:
            time.sleep(1)
        """
    )
    one = kernel(_KERNEL.format(warm=warm, idle=False, after=600))
    printed(tmp_path, "in")
    job = {p: v for p, v in one.family().items() if not warm or v.ppid() != one.pid}
    one.interrupt()
    printed(tmp_path, "no", ranks=1)
    one.interrupt()
    assert gone(job, WITHIN) is not None
    assert one.hear("stopped") == "JobStopped"


def test_a_script_may_save_when_it_is_stopped(launch, warm, write):
    write(
        """
        import time
        try:
            print("in", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            print("saved", flush=True)
        """
    )
    run = torchrun("script.py", nproc_per_node=2, live=False, warm=warm)
    until(lambda: len(run.ranks) == 2 and "in" in run.stdout(0) and "in" in run.stdout(1))
    run.stop()
    assert [run.stdout(rank) for rank in range(2)] == ["in\nsaved\n"] * 2
    assert (run.state, Run.open(run.directory).state) == ("stopped", "stopped")
    with pytest.raises(JobStopped):
        run.wait()
    assert run.stop() is run  # nothing more to do
    with pytest.raises(JobStopped, match="none of its processes is left"):
        run.follow()


def test_a_stop_before_the_host_is_ready(kernel, write):
    write("print(1)")
    one = kernel(_KERNEL.format(warm=True, idle=False, after=600))
    one.hear("launching")
    until(one.family)
    host = one.family()
    one.interrupt()
    assert one.hear("stopped") == "JobStopped"
    assert set(one.family()) == set(host)  # it goes on importing torch, for the next job


def test_a_stop_of_two_jobs_before_the_host_is_ready(kernel, write, tmp_path):
    write("print(1)")
    one = kernel(
        """
        from loadwrap import torchrun
        runs = [torchrun("script.py", live=False) for _ in range(3)]
        say("started")
        runs[0].stop()
        runs[2].stop()
        say("stopped")
        say("states", *[run.state for run in runs], runs[1].wait().state)
        """
    )
    assert one.hear("states") == "stopped running stopped finished"


def test_a_stop_while_the_first_figure_is_being_made(kernel, write, tmp_path):
    # Whatever the kernel does for the job when stop is pressed, the job ends.
    write("print('in', flush=True)\nimport time; time.sleep(600)\n")
    one = kernel(
        """
        import time
        from loadwrap import torchrun, views

        def slow(*_):
            say("making")
            time.sleep(600)

        views.view = slow
        try:
            torchrun("script.py", nproc_per_node=2, live=True)
        except KeyboardInterrupt as error:
            say("stopped", type(error).__name__)
        time.sleep(600)
        """
    )
    one.hear("making")
    printed(tmp_path, "in")
    job = {p: v for p, v in one.family().items() if v.ppid() != one.pid}
    one.interrupt()
    assert gone(job, WITHIN) is not None
    assert one.hear("stopped") == "JobStopped"


def test_a_run_started_elsewhere_is_stopped_there(kernel, write, tmp_path):
    write("import time; print('in', flush=True); time.sleep(600)")
    one = kernel(_KERNEL.format(warm=True, idle=False, after=0))
    printed(tmp_path, "in\n")
    (folder,) = (tmp_path / "runs").iterdir()
    run = Run.open(folder)
    assert (run.state, run.stdout(1)) == ("running", "in\n")
    with pytest.raises(LaunchError, match="started elsewhere"):
        run.stop()
    one.interrupt()
    one.hear("stopped")
    assert run.state == "stopped"


def test_the_host_serves_on_after_a_stop(launch, write):
    launch("print(1)")
    host = client._host.pid
    for _ in range(5):  # the host finds the start and the stop together, or one after the other
        run = torchrun("script.py", live=False).stop()
        assert json.loads((run.directory / "run.json").read_text())["code"] is not None
    write("import time; print('in', flush=True); time.sleep(600)", "long.py")
    run = torchrun("long.py", nproc_per_node=2, live=False)
    until(lambda: len(run.ranks) == 2)
    run.stop()
    assert launch("print(2)").stdout(0) == "2\n"
    assert client._host.pid == host
    assert [c.pid for c in psutil.Process(host).children()] == []
