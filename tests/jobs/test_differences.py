"""A forked rank is what torchrun's subprocess would have been.

One test for each of ten ways in which a process that was forked from a warm one differs from a
fresh interpreter, run both warm and cold. The last test compares the two in one go.
"""

import json
import os
import tempfile

import pytest

from loadwrap import JobFailed, torchrun
from loadwrap.jobs import client


def test_difference_01_leaving_early_ends_the_job(launch, warm):
    run = launch(
        """
        import os, sys
        rank = int(os.environ["RANK"])
        print("here")
        if rank == 0:
            sys.exit()
        if rank == 1:
            sys.exit(0)
        if rank == 2:
            os._exit(0)
        """,
        nproc_per_node=4,
        warm=warm,
    )
    assert run.state == "finished"
    assert [run.stdout(rank) for rank in range(4)] == ["here\n"] * 4


def test_difference_01_a_keyboard_interrupt_in_a_rank_ends_the_job(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            import os, time
            if os.environ["RANK"] == "1":
                raise KeyboardInterrupt
            time.sleep(60)
            """,
            warm=warm,
        )
    # Python ends by the signal itself, so that its parent can tell.
    assert (failed.value.rank, failed.value.exitcode) == (1, -2)


def test_difference_02_workers_of_a_loader_do_not_run_the_script_again(launch, warm):
    run = launch(
        """
        print("started", flush=True)
        import multiprocessing, torch
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(8.0))
        loader = DataLoader(data, 4, num_workers=2)
        print(sum(batch.sum().item() for (batch,) in loader))
        print(multiprocessing.get_start_method(allow_none=True))
        """,
        warm=warm,
    )
    for rank in range(2):
        assert run.stdout(rank).splitlines() == ["started", "28.0", "fork"]


def test_difference_03_unseeded_numbers_differ_between_ranks_and_jobs(launch, warm):
    text = """
        import json, multiprocessing, random, tempfile, uuid
        import numpy, torch
        print(json.dumps([
            random.random(), numpy.random.rand(), torch.rand(1).item(),
            numpy.random.default_rng().random(), uuid.uuid4().hex,
            multiprocessing.current_process().authkey.hex(),
            next(tempfile._get_candidate_names()),
        ]))
        """
    drawn = []
    for _ in range(2):
        run = launch(text, nproc_per_node=3, warm=warm)
        drawn += [json.loads(run.stdout(rank)) for rank in range(3)]
    for column in zip(*drawn, strict=True):
        assert len(set(column)) == 6


def test_difference_04_threads_are_torchruns(launch, warm):
    run = launch(
        """
        import os, torch
        print(os.environ["OMP_NUM_THREADS"], torch.get_num_threads())
        """,
        warm=warm,
    )
    assert [run.stdout(rank) for rank in range(2)] == ["1 1\n"] * 2


def test_difference_05_the_last_line_survives_a_kill(launch, warm):
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            import os, signal
            print("a line that nobody flushed")
            print("half a line", end="")
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            nproc_per_node=1,
            warm=warm,
        )
    (stdout,) = failed.value.directory.glob("logs/*/attempt_0/0/stdout.log")
    assert stdout.read_text() == "a line that nobody flushed\nhalf a line"


def test_difference_06_it_is_a_script_like_any_other(write, launch, warm, tmp_path):
    write("where = __file__\n", "sub/sibling.py")
    with pytest.raises(JobFailed) as failed:
        launch(
            """
            import atexit, json, multiprocessing, os, pickle, sys

            class Thing:
                value = 3

            def work(thing, queue):
                queue.put((type(thing).__module__, thing.value))

            def last():
                print("atexit ran", file=sys.stderr)

            if __name__ == "__main__":
                atexit.register(last)
                import sibling
                context = multiprocessing.get_context("spawn")
                queue = context.SimpleQueue()
                child = context.Process(target=work, args=(Thing(), queue))
                child.start()
                child.join()
                import __main__
                print(json.dumps({
                    "sibling": sibling.where,
                    "file": __file__,
                    "argv": sys.argv,
                    "path": sys.path[0],
                    "spawned": queue.get(),
                    "main": __main__.Thing is Thing and sys.modules["__main__"] is __main__,
                    "pickled": pickle.loads(pickle.dumps(Thing())).value,
                    "names": sorted(set(globals()) - {"context", "queue", "child", "sibling"}),
                }))
                raise ValueError("on purpose")
            """,
            "--size",
            3,
            name="sub/script.py",
            nproc_per_node=1,
            warm=warm,
        )
    error = failed.value
    (stdout,) = error.directory.glob("logs/*/attempt_0/0/stdout.log")
    told = json.loads(stdout.read_text())
    names = told.pop("names")
    assert {"Thing", "last", "work", "__file__", "__builtins__", "__spec__"} <= set(names)
    assert told == {
        "sibling": str(tmp_path / "sub/sibling.py"),
        "file": str(tmp_path / "sub/script.py"),
        "argv": ["sub/script.py", "--size", "3"],
        "path": str(tmp_path / "sub"),
        "spawned": ["__mp_main__", 3],
        "main": True,
        "pickled": 3,
    }
    stderr = stdout.with_name("stderr.log").read_text()
    assert stderr.startswith("Traceback (most recent call last):\n")
    assert stderr.endswith("ValueError: on purpose\natexit ran\n")
    assert stderr.count("  File ") == 1  # the script's own frame, none of ours
    assert f'  File "{tmp_path}/sub/script.py", line 32, in <module>\n' in stderr
    assert (error.rank, error.exitcode) == (0, 1)


_TEARDOWNS = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        "127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=False, wait_for_workers=False
    )

    def train():
        ddp = DistributedDataParallel(torch.nn.Linear(8, 8))
        ddp(torch.randn(4, 8)).sum().backward()

    for number in range(int(sys.argv[1])):
        dist.init_process_group(
            "gloo", store=dist.PrefixStore(f"round {number}", store), rank=rank, world_size=world
        )
        train()
        dist.barrier()
        dist.destroy_process_group()
    print("done")
"""


@pytest.mark.parametrize(("warm", "times"), [(True, 200), (False, 20)], ids=["warm", "cold"])
def test_difference_07_no_rank_hangs_at_the_exit_of_training(launch, warm, times):
    run = launch(_TEARDOWNS, times, warm=warm, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0"})
    assert [run.stdout(rank) for rank in range(2)] == ["done\n"] * 2


def test_difference_08_a_bad_value_for_torchrun_leaves_the_host_alone(launch, warm):
    launch("print(1)")
    host = client._host.pid
    with pytest.raises(JobFailed) as failed:
        launch("print(1)", warm=warm, monitor_interval="often")
    assert "--monitor-interval" in str(failed.value) and "often" in str(failed.value)
    launch("print(1)")
    assert client._host.pid == host


def test_difference_09_cuda_stays_untouched(launch, warm):
    run = launch(
        """
        import os, torch
        print(torch.cuda.is_initialized(), os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"))
        print(torch.cuda.is_available() in (True, False))
        """,
        warm=warm,
    )
    assert run.stdout(0) == "False None\nTrue\n"


def test_difference_10_nothing_is_left_in_the_temporary_folder(launch, warm, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    shared = set(os.listdir(tempfile.gettempdir()))
    run = launch("import tempfile; print(tempfile.gettempdir())", warm=warm)
    assert run.stdout(0) == f"{tmp_path}/temporary\n"
    assert os.listdir(tmp_path / "temporary") == []
    left = set(os.listdir(tempfile.gettempdir())) - shared
    assert not [name for name in left if name.startswith("torchelastic_")]


_PROBE = """
    import faulthandler, gc, json, os, resource, signal, sys, threading, warnings
    import multiprocessing, tempfile

    def status(name):
        with open("/proc/self/status") as file:
            return next(line.split()[1] for line in file if line.startswith(name))

    descriptors = {
        int(number): os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")
    }
    before = set(sys.modules)
    import torch, torch.distributed, numpy
    found = {
        "environment": dict(os.environ),
        "argv": sys.argv,
        "words": sys.orig_argv[1:],
        "path": sys.path,
        "executable": os.path.realpath(sys.executable),
        "prefix": sys.prefix,
        "main": {name: repr(value) for name, value in vars(sys.modules["__main__"]).items()
                 if name.startswith("__") and name not in ("__builtins__", "__loader__")},
        "loader": type(__loader__).__name__,
        "builtins": type(__builtins__).__name__,
        "cwd": os.getcwd(),
        "leads a session": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "umask": os.umask(0),
        "descriptors": sorted(n for n, path in descriptors.items() if n < 3),
        "others": sorted(os.path.basename(path) for n, path in descriptors.items() if n > 2),
        "stdin": descriptors[0],
        "streams": [
            [s.name, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.mode]
            for s in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        ],
        "stdin stream": [sys.stdin.name, sys.stdin.encoding, sys.stdin.read()],
        "same streams": sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__,
        "raw": type(sys.stdout.buffer).__name__,
        "signals": {
            s.name: repr(signal.getsignal(s)) if not callable(signal.getsignal(s))
            or s == signal.SIGINT else "handler" for s in signal.Signals
        },
        "ignored": status("SigIgn"),
        "blocked": status("SigBlk"),
        "limits": [resource.getrlimit(n) for n in range(16)],
        "threads": [t.name for t in threading.enumerate()],
        "main thread": threading.current_thread() is threading.main_thread(),
        "hooks": [sys.excepthook is sys.__excepthook__, threading.excepthook.__name__,
                  sys.displayhook is sys.__displayhook__, sys.unraisablehook.__name__],
        "trace": [sys.gettrace(), sys.getprofile()],
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "recursion": sys.getrecursionlimit(),
        "faulthandler": faulthandler.is_enabled(),
        "filters": [repr(f) for f in warnings.filters],
        "process": [multiprocessing.current_process().name, multiprocessing.parent_process()],
        "directory": multiprocessing.process.ORIGINAL_DIR,
        "temporary": tempfile.gettempdir(),
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "torch": [str(torch.get_default_dtype()), torch.is_grad_enabled(),
                  torch.distributed.is_initialized(), torch.backends.mkldnn.enabled,
                  str(torch.get_default_device()), torch.are_deterministic_algorithms_enabled()],
        "numpy": [repr(numpy.geterr()), repr(numpy.get_printoptions())],
        "ours": sorted(name for name in sys.modules if name.split(".")[0] == "loadwrap"),
    }
    print(json.dumps(found))
"""

# What two jobs never share.
_EACH_ITS_OWN = {"LOADWRAP_RUN", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}


def test_a_warm_rank_finds_the_process_that_a_cold_one_finds(write, tmp_path):
    script = write(_PROBE, "sub folder/probe.py")
    found = {}
    for warm in (True, False):
        run = torchrun(
            script, "--a", "b c", nproc_per_node=2, live=False, warm=warm, runs="runs",
            env={"MINE": "1 2", "PYTHONPATH": f"relative::{tmp_path}/more"},
        ).wait()  # fmt: skip
        found[warm] = json.loads(run.stdout(1))
    warm, cold = found[True], found[False]
    environments = warm.pop("environment"), cold.pop("environment")
    assert environments[0].keys() == environments[1].keys()
    assert environments[0].keys() >= {"MINE", *_EACH_ITS_OWN}
    for name in environments[0].keys() - _EACH_ITS_OWN:
        assert environments[0][name] == environments[1][name], name
    # A warm rank can be asked for its stacks from the start; a cold one, once it imports us.
    assert warm.pop("others") == ["rank1.txt", *cold.pop("others")]
    # What a library wants of warnings it says when it is loaded, and more of them are loaded.
    assert set(cold.pop("filters")) <= set(warm.pop("filters"))
    assert warm == cold
