"""After many jobs there is as much as after one: descriptors, processes, memory, files."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kernels import WITHIN, Kernel, gone
from loadwrap import JobFailed, torchrun
from loadwrap.jobs import client


def test_thirty_jobs_leave_nothing_in_kernel_or_host(write, tmp_path):
    write(
        """
        import os, torch
        from loadwrap import log
        log(1, loss=float(torch.ones(2).sum()))
        print("printed")
        """
    )

    def one():
        run = torchrun("script.py", nproc_per_node=1, live=False).wait()
        assert run.curve("loss")[0][1].tolist() == [2.0]
        return run

    runs = [one() for _ in range(3)]
    kernel, host = psutil.Process(), psutil.Process(client._host.pid)
    before = kernel.num_fds(), host.num_fds(), host.num_threads(), host.memory_info().rss
    size = os.fstat(client._host._log.fileno()).st_size
    runs += [one() for _ in range(30)]  # all are kept: a finished run holds no file open
    after = kernel.num_fds(), host.num_fds(), host.num_threads(), host.memory_info().rss
    assert after[:3] == before[:3]
    assert after[3] - before[3] < 4 * 2**20
    assert os.fstat(client._host._log.fileno()).st_size == size == 0
    assert host.children() == []
    assert client._host.jobs == {}
    assert host.pid == client._host.pid
    assert [p for p in kernel.children(recursive=True) if p.status() == "zombie"] == []


def test_a_cold_job_leaves_no_descriptor_and_no_zombie(launch):
    launch("print(1)", warm=False)
    kernel = psutil.Process()
    before = kernel.num_fds()
    launch("print(1)", warm=False)
    assert kernel.num_fds() == before
    assert [p for p in kernel.children(recursive=True) if p.status() == "zombie"] == []


def test_a_run_that_nobody_waits_for_leaves_no_agent(write):
    torchrun(write("print(1)"), live=False)
    host = psutil.Process(client._host.pid)
    end = time.monotonic() + 30
    while host.children() or not list(Path("runs").glob("*/logs/*/attempt_0/0/stdout.log")):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_forks_of_the_kernel_leave_its_host_alone(write, tmp_path):
    write("print('well')")
    kernel = Kernel(
        """
        import multiprocessing, os
        from loadwrap import torchrun
        from loadwrap.jobs import client

        def work():
            return None

        first = torchrun("script.py", live=False)
        pid = os.fork()
        if pid == 0:
            raise SystemExit(0)  # with atexit, as a fork that ends in the usual way
        os.waitpid(pid, 0)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        first.wait()
        host = client._host.pid
        second = torchrun("script.py", live=False).wait()
        say("same", client._host.pid == host, second.stdout(0).strip())

        # A fork may start jobs of its own, with a host of its own.
        pid = os.fork()
        if pid == 0:
            try:
                run = torchrun("script.py", live=False).wait()
                say("fork", client._host.pid != host, run.stdout(0).strip())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        say("after", torchrun("script.py", live=False).wait().stdout(0).strip())
        """,
        tmp_path,
    )
    try:
        assert kernel.hear("same") == "True well"
        assert kernel.hear("fork") == "True well"
        assert kernel.hear("after") == "well"
        assert kernel.wait() == 0
    finally:
        kernel.close()


def test_a_kernel_without_standard_streams(write, tmp_path):
    """Descriptors 0 to 2 are free there, and would be given to the next connection."""
    write("print('well')")
    for warm in (True, False):
        out = tmp_path / f"out{warm}"
        code = (
            "import os\nfor n in range(3): os.close(n)\n"
            "from loadwrap import torchrun\n"
            f"run = torchrun('script.py', nproc_per_node=2, live=False, warm={warm}).wait()\n"
            f"open({str(out)!r}, 'w').write(run.stdout(1))"
        )
        subprocess.run([sys.executable, "-c", code], timeout=120)
        assert out.read_text() == "well\n"


def test_a_kernel_that_ends_ends_its_jobs_and_its_host(write, tmp_path):
    write("import time; print('in', flush=True); time.sleep(600)")
    kernel = Kernel(
        """
        from loadwrap import torchrun
        from loadwrap.jobs import client
        run = torchrun("script.py", live=False)
        while not (run.ranks and run.stdout(0)):
            run._job.pump(0.05)
        say("running")
        while not __import__("os").path.exists("end"):
            run._job.pump(0.05)
        """,
        tmp_path,
    )
    kernel.hear("running")
    family = kernel.family()
    assert len(family) == 3
    Path("end").touch()
    assert kernel.wait() == 0
    assert gone(family, WITHIN) is not None
    kernel.close()


def test_a_host_that_cannot_fork_any_more_fails_the_job_alone(launch, write):
    """As when a limit on processes or descriptors is reached: an error, and the host goes on."""
    launch("print(1)")
    host = client._host.pid
    used = psutil.Process(host).num_fds()
    old = resource.prlimit(host, resource.RLIMIT_NOFILE)
    resource.prlimit(host, resource.RLIMIT_NOFILE, (used, old[1]))
    try:
        with pytest.raises(JobFailed) as failed:
            launch("print(1)")
        assert "Too many open files" in str(failed.value)
    finally:
        resource.prlimit(host, resource.RLIMIT_NOFILE, old)

    run = torchrun(
        write("import time; print('in', flush=True); time.sleep(600)"),
        nproc_per_node=2, max_restarts=1, live=False,
    )  # fmt: skip
    while not (len(run.ranks) == 2 and run.stdout(0) and run.stdout(1)) or len(run._job.ranks) < 2:
        run._job.pump(0.02)
    used = psutil.Process(host).num_fds()
    resource.prlimit(host, resource.RLIMIT_NOFILE, (used, old[1]))
    try:
        os.kill(run._job.ranks[0], signal.SIGKILL)
        with pytest.raises(JobFailed) as failed:
            run.wait()
        assert failed.value.rank == 0
        said = (run.directory / "agent.log").read_text()
        assert "OSError: the warm host could not fork a rank: " in said
        assert "Too many open files" in said
    finally:
        resource.prlimit(host, resource.RLIMIT_NOFILE, old)
    assert launch("print(2)").stdout(0) == "2\n"
    assert client._host.pid == host
