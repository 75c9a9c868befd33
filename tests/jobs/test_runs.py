"""Runs: two at once, waited for twice, opened elsewhere, stopped and restarted."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from kernels import Kernel
from loadwrap import JobFailed, LaunchError, Run, torchrun
from loadwrap.jobs import client

_LOG = """
    import os, sys, time
    from loadwrap import log
    rank = int(os.environ["RANK"])
    for step in range(int(sys.argv[1])):
        log(step, loss=1 / (step + 1) + rank)
        print(f"step {step}: loss {1 / (step + 1) + rank}")
"""


def test_a_run_gives_its_curves_its_output_and_its_words(launch, warm, capsys):
    run = launch(_LOG, 5, warm=warm)
    curve = run.curve("loss")
    assert list(curve) == [0, 1]
    steps, values = curve[1]
    assert (steps.dtype, values.dtype) == (np.int64, np.float64)
    assert steps.tolist() == list(range(5))
    assert values.tolist() == [1 / (step + 1) + 1 for step in range(5)]
    assert run.mean("loss")[1].tolist() == [1 / (step + 1) + 0.5 for step in range(5)]
    assert (run.metrics, run.ranks, run.state) == (("loss",), (0, 1), "finished")
    assert run.stdout(1).splitlines()[4] == "step 4: loss 1.2"
    assert run.stderr(0) == ""
    assert repr(run) == "Run(script.py, 2 ranks, finished)"
    with pytest.raises(KeyError, match="loss"):
        run.curve("accuracy")
    with pytest.raises(LaunchError, match="no output of rank 7; the ranks here: 0, 1"):
        run.stdout(7)
    assert run.wait() is run and run.wait() is run
    assert run.follow() is run  # over: the same picture again
    assert capsys.readouterr().out.splitlines() == [
        f"$ {run.command}",
        "step 4 · loss 0.7 (mean of 2 ranks)",
    ]
    record = json.loads((run.directory / "run.json").read_text())
    assert (record["state"], record["code"], record["warm"]) == ("finished", 0, warm)

    again = Run.open(run.directory)
    assert again.state == "finished" and again.command == run.command
    assert again.curve("loss")[1][1].tolist() == values.tolist()
    assert again.stop() is again and again.wait() is again
    by_pattern = Run.open(run.directory, pattern=r"step (?P<step>\d+): loss (?P<loss>\S+)")
    assert by_pattern.curve("loss")[1][1].tolist() == values.tolist()


def test_a_plain_log_is_a_run_too(write):
    write("noise\nstep 1 loss 2.5\nstep 2 loss 1.5\n", "slurm-1.out")
    run = Run.open("slurm-1.out", pattern=r"step (?P<step>\d+) loss (?P<loss>\S+)")
    assert run.curve("loss")[0][1].tolist() == [2.5, 1.5]
    assert "noise" in run.stdout(0)
    with pytest.raises(LaunchError, match="give pattern="):
        Run.open("slurm-1.out")
    with pytest.raises(LaunchError, match="There is no run runs/x"):
        Run.open("runs/x")
    Path("empty").mkdir()
    with pytest.raises(LaunchError, match="not a run folder"):
        Run.open("empty")


def test_live_outside_a_notebook_prints_lines(write, capsys):
    run = torchrun(write(_LOG), 3, nproc_per_node=2)
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "$ torchrun --standalone --nproc-per-node 2 script.py 3" == f"$ {run.command}"
    )
    assert lines[-1] == "step 2 · loss 0.8333 (mean of 2 ranks)"
    torchrun(write("print('no metric')"), nproc_per_node=2)
    assert capsys.readouterr().out.splitlines()[1:] == ["[rank 0] no metric", "[rank 1] no metric"]


def test_the_command_does_the_same_in_a_terminal(write, tmp_path):
    write(
        """
        import os, sys
        words = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "A")]
        os.write(1, f"{sys.argv} {words}\\n".encode())  # at once: in a terminal it is one stream
        """
    )
    run = torchrun("script.py", "--x", "a b", nproc_per_node=2, env={"A": "1 2"}, live=False).wait()
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}  # torchrun leaves a folder
    done = subprocess.run(run.command, shell=True, capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    both = run.stdout(0) + run.stdout(1)
    assert "'1', '2', '1', '1 2'" in both
    assert sorted(done.stdout.splitlines()) == both.splitlines()


def test_two_jobs_at_once_and_a_third_that_fails(write):
    write(
        """
        import os, sys, time
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.ones(1) * float(sys.argv[1])
        dist.all_reduce(total)
        print(total.item())
        open(sys.argv[1] + os.environ["RANK"], "w").close()
        while not (os.path.exists("10") and os.path.exists("20")):
            time.sleep(0.01)  # both are there at one time
        dist.barrier()
        dist.destroy_process_group()
        """
    )
    write("raise ValueError('third')", "bad.py")
    runs = [torchrun("script.py", number, nproc_per_node=2, live=False) for number in (1, 2)]
    bad = torchrun("bad.py", live=False)
    with pytest.raises(JobFailed, match="third"):
        bad.wait()
    assert [run.wait().stdout(1) for run in runs] == ["2.0\n", "4.0\n"]
    assert len({run.directory for run in runs}) == 2


def test_threads_may_start_jobs(write):
    write(_LOG)
    torchrun("script.py", 1, live=False).wait()
    runs, errors = [], []

    def work(number):
        try:
            for _ in range(3):
                runs.append(torchrun("script.py", number, nproc_per_node=2, live=False).wait())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)
    assert sorted(len(run.curve("loss")[1][0]) for run in runs) == [3, 3, 3, 4, 4, 4, 5, 5, 5]


def test_a_running_run_is_followed_from_another_process(write, tmp_path):
    write(
        """
        import os, time
        from loadwrap import log
        for step in range(100_000):
            log(step, loss=1.0)
            if os.path.exists("enough"):
                break
            time.sleep(0.01)
        """
    )
    kernel = Kernel(
        """
        from loadwrap import torchrun
        run = torchrun("script.py", nproc_per_node=2, live=False)
        say("folder", run.directory)
        run.wait()
        """,
        tmp_path,
    )
    try:
        run = Run.open(kernel.hear("folder"))
        end = time.monotonic() + 60
        while len(run.ranks) < 2 or "loss" not in run.metrics:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert run.state == "running"
        Path("enough").touch()
        assert run.wait() is run
        assert run.state == "finished"
        assert run.curve("loss")[0][0].tolist() == list(range(len(run.curve("loss")[0][0])))
        kernel.wait()
    finally:
        kernel.close()


def test_a_run_whose_kernel_was_killed_is_unknown(write, tmp_path):
    write("import time; print('in', flush=True); time.sleep(600)")
    kernel = Kernel(
        """
        from loadwrap import torchrun
        run = torchrun("script.py", live=False)
        say("folder", run.directory)
        run.wait()
        """,
        tmp_path,
    )
    run = Run.open(kernel.hear("folder"))
    kernel.close()
    assert run.state == "unknown"


_RESTARTED = """
    import os, signal, time
    import torch, torch.distributed as dist
    from loadwrap import log
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    def train():
        for step in range(4):
            if attempt == 0 and step == 2 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            value = torch.ones(1)
            dist.all_reduce(value)
            log(step, loss=value.item() + attempt)
            print("attempt", attempt, "step", step)

    dist.init_process_group("gloo")
    train()
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("nproc", [2, 4])
def test_torchrun_restarts_killed_ranks_warm(nproc, launch):
    restarted(launch(_RESTARTED, nproc_per_node=nproc, max_restarts=1), nproc)


def test_torchrun_restarts_killed_ranks_cold(launch):
    restarted(launch(_RESTARTED, max_restarts=1, warm=False), 2)


def restarted(run, nproc):
    assert run.state == "finished"
    for rank in range(nproc):
        lines = run.stdout(rank).splitlines()
        assert lines[-4:] == [f"attempt 1 step {step}" for step in range(4)]
        assert lines[0] == "attempt 0 step 0"
        # The steps after the restart take the place of those before it, or follow them.
        assert run.curve("loss")[rank][1][-4:].tolist() == [nproc + 1.0] * 4


def test_a_rank_that_fails_at_every_attempt_is_named(launch):
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            import os, time
            if os.environ["RANK"] == "1":
                raise ValueError("attempt " + os.environ["TORCHELASTIC_RESTART_COUNT"])
            time.sleep(600)
            """,
            max_restarts=2,
        )
    assert failed.value.rank == 1
    assert failed.value.traceback.endswith("ValueError: attempt 2")


def test_two_machines_are_two_background_jobs(write):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    write(
        """
        import torch, torch.distributed as dist
        from loadwrap import log
        dist.init_process_group("gloo")
        for step in range(3):
            value = torch.tensor([float(dist.get_rank())])
            dist.all_reduce(value)
            log(step, loss=value.item(), rank=dist.get_rank())
        dist.barrier()
        dist.destroy_process_group()
        """
    )
    runs = [
        torchrun(
            "script.py", nnodes=2, nproc_per_node=2, live=False,
            rdzv_backend="c10d", rdzv_endpoint=f"127.0.0.1:{port}", rdzv_id="two",
        )
        for _ in range(2)
    ]  # fmt: skip
    ranks = set()
    for run in runs:
        assert run.wait().state == "finished"
        assert len(run.ranks) == 2
        for rank, (steps, values) in run.curve("loss").items():
            assert (steps.tolist(), values.tolist()) == ([0, 1, 2], [6.0] * 3)
            assert run.curve("rank")[rank][1].tolist() == [rank] * 3
            ranks.add(rank)
            run.stdout(rank)
    assert ranks == {0, 1, 2, 3}


def test_a_host_that_was_killed_is_replaced(launch):
    launch("print(1)")
    host = client._host
    os.kill(host.pid, signal.SIGKILL)
    host._process.wait(10)
    assert launch("print(2)").stdout(0) == "2\n"
    assert client._host.pid != host.pid
    assert host.lost and host._link.fileno() == -1
