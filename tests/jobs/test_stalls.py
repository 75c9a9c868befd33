"""A job that gives no sign of life: where every rank stands, and an end if one was asked for."""

import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from loadwrap import JobStalled, torchrun
from loadwrap.jobs import processes, stacks
from loadwrap.jobs.stalls import Watch

_WAITING = """
    import os, time
    {imports}
    import torch.distributed as dist

    def meet():
        dist.barrier()

    dist.init_process_group("gloo")
    open("at" + os.environ["RANK"], "w").close()
    if dist.get_rank() == 0:
        meet()
    else:
        time.sleep(600)
"""


def waits(run, folder, ranks=2):
    """Waits until every rank has come to its last line, and rests there."""
    end = time.monotonic() + 60
    while not all((folder / f"at{rank}").exists() for rank in range(ranks)):
        assert time.monotonic() < end and not run._job.ended
        run._job.pump(0.05)
    time.sleep(0.3)


@pytest.mark.parametrize(("warm", "imports"), [(True, ""), (False, "import loadwrap")])
def test_the_report_names_every_ranks_line(warm, imports, write, tmp_path):
    text = _WAITING.format(imports=imports)
    run = torchrun(write(text), nproc_per_node=2, live=False, warm=warm)
    waits(run, tmp_path)
    try:
        assert run._started.watch.report() == (
            "rank 0 in barrier at script.py:7, rank 1 in <module> at script.py:14"
        )
        # It can be asked again, and nobody was harmed.
        assert run._started.watch.report().startswith("rank 0 in barrier at script.py:7, ")
        assert run.state == "running"
    finally:
        run.stop()


def test_a_cold_script_that_never_imported_us_cannot_be_asked(write, tmp_path):
    run = torchrun(
        write(_WAITING.format(imports="")), nproc_per_node=2, live=False, warm=False,
        stall_timeout=2,
    )  # fmt: skip
    with pytest.raises(JobStalled) as stalled:
        run.wait()
    assert str(stalled.value).splitlines() == [
        "No rank logged or printed anything for 2 s; the job was stopped. Where they stood:",
        *stalled.value.report.splitlines(),
    ]
    if stalled.value.report != "no rank is running":  # torchrun was still starting them
        for rank in re.findall(r"rank \d ([^,]*)", stalled.value.report):
            assert rank == "cannot be asked (it never imported loadwrap)"
    assert run.state == "failed"
    assert run._job.ended and not run._job.look()


def test_a_silent_job_is_stopped_when_that_was_asked_for(write, tmp_path):
    run = torchrun(
        write(_WAITING.format(imports="")), nproc_per_node=2, live=False, stall_timeout=2
    )
    waits(run, tmp_path)
    ranks = [psutil.Process(pid) for pid in run._job.ranks.values()]
    with pytest.raises(JobStalled) as stalled:
        run.wait()
    assert stalled.value.report == (
        "rank 0 in barrier at script.py:7, rank 1 in <module> at script.py:14"
    )
    assert stalled.value.directory == run.directory
    assert not any(rank.is_running() for rank in ranks)
    with pytest.raises(JobStalled):
        run.wait()


def test_a_job_that_logs_or_prints_is_not_silent(launch):
    run = launch(
        """
        import os, time
        from loadwrap import log
        for step in range(20):
            time.sleep(0.1)
            log(step, loss=1.0) if os.environ["RANK"] == "0" else None
        """,
        stall_timeout=1.2,
    )
    assert run.state == "finished"


def test_busy_ranks_are_not_called_lifeless(write, tmp_path):
    run = torchrun(
        write(
            """
            import os
            open("at" + os.environ["RANK"], "w").close()
            while True:
                pass
            """
        ),
        nproc_per_node=2,
        live=False,
    )
    waits(run, tmp_path)
    busy = Watch(run.directory, run._job)
    end = time.monotonic() + 3
    told = False
    while time.monotonic() < end:
        told |= busy.look(quiet_for=1.0)
        time.sleep(0.05)
    run.stop()
    assert not told
    assert busy.silent_for > 2


def test_idle_ranks_are_called_lifeless_once(write, tmp_path):
    run = torchrun(write(_WAITING.format(imports="")), nproc_per_node=2, live=False)
    waits(run, tmp_path)
    idle = Watch(run.directory, run._job)
    told = 0
    end = time.monotonic() + 20
    while time.monotonic() < end and not told:
        told += idle.look(quiet_for=1.0)
        time.sleep(0.05)
    assert told == 1
    for _ in range(30):
        told += idle.look(quiet_for=1.0)
        time.sleep(0.05)
    run.stop()
    assert told == 1


def test_a_script_with_signal_handlers_of_its_own_is_unharmed(launch, warm, write):
    write("", "mark")
    run = torchrun(
        write(
            """
            import os, signal, time
            got = []
            signal.signal(signal.SIGUSR1, lambda *_: got.append("usr1"))
            signal.signal(signal.SIGUSR2, lambda *_: got.append("usr2"))
            open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
            while len(got) < 2:
                time.sleep(0.01)
            print(sorted(got))
            """
        ),
        nproc_per_node=1,
        live=False,
        warm=warm,
    )
    end = time.monotonic() + 60
    while not processes.LINUX or not (run._job.look() if not warm else run._job.ranks):
        assert time.monotonic() < end
        run._job.pump(0.05)
    while not Path("pid0").exists() or not Path("pid0").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    pid = int(Path("pid0").read_text())
    assert run._job.ranks == {0: pid}
    assert run._started.watch.report().startswith("rank 0 ")
    psutil.Process(pid).send_signal(signal.SIGUSR1)
    psutil.Process(pid).send_signal(signal.SIGUSR2)
    run.wait()
    assert run.stdout(0) == "['usr1', 'usr2']\n"


def test_a_rank_that_took_our_signal_for_itself_is_left_alone(launch):
    run = launch(
        f"""
        import signal
        signal.signal({stacks.SIGNAL}, signal.SIG_DFL)
        """
    )
    assert run.state == "finished"
