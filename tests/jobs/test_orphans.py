"""Whatever is killed, at whatever moment: three seconds later nothing of the job is left.

A process of a test plays the kernel. Its job's ranks use DataLoader workers, and each leaves a
process of its own behind, once in a session of its own.
"""

import contextlib
import os
import random
import signal
import time

import psutil
import pytest

from kernels import WITHIN, Kernel, alive, gone

_SCRIPT = """
    import os, subprocess, sys, time
    rank = os.environ["RANK"]
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    subprocess.Popen(sleeper, start_new_session=rank == "1")
    open(f"pid{rank}", "w").write(str(os.getpid()))
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset
    dist.init_process_group("gloo")
    data = TensorDataset(torch.arange(64.0))
    while True:
        for (batch,) in DataLoader(data, 4, num_workers=1):
            time.sleep(0.02)
        dist.all_reduce(torch.ones(3))
        open(f"epoch{rank}", "w").close()
"""

# The kernel starts one job for each file "go" that appears. An attended job is waited for; with
# the other kind nobody looks, as when a cell has started it and the learner reads on.
_KERNEL = """
    import os, time
    from loadwrap import torchrun
    from loadwrap.jobs import client
    for number in range(100):
        while not os.path.exists(f"go{number}"):
            time.sleep(0.01)
        warm, attended = map(int, open(f"go{number}").read())
        run = torchrun("script.py", nproc_per_node=2, live=False, warm=bool(warm))
        say(f"host{number}", client._host.pid if warm else run._job._supervisor.pid)
        while run._job.agent is None and not run._job.ended:
            run._job.pump(0.05)
        say(f"agent{number}", run._job.agent)
        try:
            if attended:
                run.wait()
        except Exception as error:
            say(f"failed{number}", type(error).__name__)
"""


class Scene:
    """A kernel, its jobs one after another, and every process that there ever was."""

    def __init__(self, folder):
        self.folder = folder
        self.kernel = Kernel(_KERNEL, folder)
        self.number = -1
        self.seen = {}

    def start(self, warm, attended):
        """Starts the next job."""
        self.number, self.warm = self.number + 1, warm
        for old in (*self.folder.glob("pid*"), *self.folder.glob("epoch*")):
            old.unlink()
        part = self.folder / "part"
        part.write_text(f"{warm:d}{attended:d}")
        part.rename(self.folder / f"go{self.number}")
        self.pid("host")
        self.note()

    def note(self):
        """Remembers who is there now; psutil asks for more than the pid when it looks again."""
        self.seen.update(self.kernel.family())

    def pid(self, who):
        """Returns the pid of one process, waiting for it to be there."""
        if who == "kernel":
            return self.kernel.pid
        if who in ("host", "agent"):
            return int(self.kernel.hear(f"{who}{self.number}"))
        path = self.folder / f"pid{who}"
        self.until(lambda: path.exists() and path.read_text())
        return int(path.read_text())

    def until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, self.kernel.printed()
            self.note()
            time.sleep(0.01)

    def train(self):
        """Waits until both ranks have trained for an epoch, with their workers alive."""
        self.until(lambda: all((self.folder / f"epoch{rank}").exists() for rank in range(2)))

    def kill(self, who):
        """Kills one process; returns the seconds after which the job was gone, else None."""
        victim = self.pid(who)
        # Where torchrun itself lives on, it decides when to end: seconds, on a busy machine.
        within = WITHIN if self.warm or who not in ("0", "1") else 10 * WITHIN
        self.note()
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        start = time.monotonic()
        while time.monotonic() - start < within:
            self.note()  # some may be born after the kill
            if not self.left(who):
                return time.monotonic() - start
            time.sleep(0.01)
        return None

    def left(self, who):
        """Returns the job's live processes; a warm host outlives a job that merely failed."""
        keep = {self.kernel.pid}
        if self.warm and who not in ("kernel", "host"):
            keep.add(self.pid("host"))
        return [process for process in alive(self.seen) if process.pid not in keep]

    def close(self):
        self.kernel.close()
        for process in alive(self.seen):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def scene(tmp_path, write):
    write(_SCRIPT)
    one = Scene(tmp_path)
    yield one
    one.close()


def check(scene, who, warm, draw):
    """Starts a job, kills one process in training or after a random while: the job is gone."""
    scene.start(warm, attended=draw.random() < 0.5)
    if draw.random() < 0.6:
        scene.train()
        time.sleep(draw.random() / 5)
    else:
        scene.pid(who)
        time.sleep(draw.random() / 2)
    took = scene.kill(who)
    assert took is not None, (who, [(p.pid, p.ppid(), p.cmdline()) for p in scene.left(who)])
    return took


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_left_of_a_warm_job(seed, scene):
    draw = random.Random(seed)
    for who in ("agent", "0", "1", "agent", "host", "kernel"):
        check(scene, who, True, draw)


@pytest.mark.parametrize("seed", [3])
def test_nothing_is_left_of_a_cold_job(seed, scene):
    draw = random.Random(seed)
    for who in ("0", "agent", "host", "kernel"):  # the host is the supervisor's guard here
        check(scene, who, False, draw)


def test_nothing_is_left_when_a_supervisor_is_killed(scene):
    scene.start(warm=False, attended=False)
    scene.train()
    (supervisor,) = psutil.Process(scene.pid("host")).children()
    os.kill(supervisor.pid, signal.SIGKILL)
    assert gone(scene.seen, WITHIN) is not None


def test_a_kernel_killed_while_the_host_imports_torch_leaves_nothing(scene):
    scene.start(warm=True, attended=False)
    assert scene.kill("kernel") is not None


def test_a_fork_of_the_kernel_does_not_keep_its_host(tmp_path):
    kernel = Kernel(
        """
        import os, time
        from loadwrap.jobs import client
        client.warm_up()
        if os.fork() == 0:  # it holds a copy of the connection to the host
            time.sleep(20)
            os._exit(0)
        say("host", client._host.pid)
        time.sleep(600)
        """,
        tmp_path,
    )
    kernel.hear("host")
    host = {pid: p for pid, p in kernel.family().items() if pid == int(kernel.hear("host"))}
    assert host
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.wait()
    assert gone(host, WITHIN) is not None
