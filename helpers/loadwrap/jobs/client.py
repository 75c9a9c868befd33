"""The kernel's end of the warm host: starts it, hands it jobs, hears what became of them.

There is no thread here. The connection is read whenever somebody asks how a job is doing;
what arrives meanwhile waits in the socket.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from .. import folder
from . import bootstrap, processes, wire
from .options import Launch
from .warm import WarmJob

# Variables that a library reads when it is loaded: a forked rank would come too late to change
# them, so a job that has other values gets another host.
_READ_AT_LOAD = (
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "ATEN_", "ONEDNN_"),
    *("DNNL_", "TORCH", "PYTORCH", "MALLOC_", "GLIBC_", "LD_", "DYLD_", "PYTHON", "NPY_"),
    *("LANG", "LC_", "TZ"),
)
_READ_LATER = {"PYTHONPATH", "PYTHONUNBUFFERED", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"}

_host: Host | None = None


def possible() -> bool:
    """Tells whether this machine can fork ranks: Linux, and not inside a rank."""
    return processes.LINUX and "RANK" not in os.environ


def warm_up() -> None:
    """Starts the host in the background, so that it is ready by the first job."""
    if possible():
        host_for({**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")})


def host_for(environment: Mapping[str, str]) -> Host:
    """Returns a host whose libraries were loaded under these variables; starts one if need be."""
    global _host
    settings = {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_LOAD) and name not in _READ_LATER
    }
    host = _host if _host and _host.owner == os.getpid() else None
    if host:
        host.pump()
    if host is None or host.lost or host.settings != settings:
        if host and host is _host:
            host.retire()
        host = _host = Host(environment, settings)
    return host


class Host:
    """One host process.

    Attributes:
        pid: Its process.
        ready: Whether it has imported torch and takes jobs at once.
        lost: Whether it has ended.
        settings: The variables under which its libraries were loaded.
    """

    def __init__(self, environment: Mapping[str, str], settings: dict[str, str]) -> None:
        """Starts the process; returns at once, while it imports torch."""
        self.owner = os.getpid()
        self.settings = settings
        self.ready = self.lost = False
        self.jobs: dict[int, WarmJob] = {}
        self._numbers = 0
        self._retiring = False
        self._lock = threading.RLock()  # jobs may be started and waited for in several threads
        self._log = tempfile.TemporaryFile()
        self._link, theirs = wire.pair()
        os.set_inheritable(theirs.fileno(), True)
        env = {
            name: value
            for name, value in environment.items()
            if not name.startswith("PYTEST_") and name not in ("MPLBACKEND", "PYTHONPATH")
        }
        if "PYTHONPATH" in os.environ:  # a job's own may lead to files that hide Python's
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        # A module that asks for CUDA as it is imported must not start it: no fork could use it.
        env.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        self._process = subprocess.Popen(
            bootstrap.command("host", str(theirs.fileno()), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=env,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a stop button signals the kernel's whole group
        )
        self.pid = self._process.pid
        theirs.close()
        atexit.register(self.retire)

    def start(self, launch: Launch, run: Path) -> WarmJob:
        """Hands over a job; it starts as soon as the host is ready."""
        self._numbers += 1
        job = WarmJob(self, self._numbers, str(run))
        static = launch.alone and not launch.restarts
        argv = launch.argv("--log-dir", str(run / folder.LOGS), "--redirects", "3")
        self.jobs[job.number] = job
        message = {
            **{"op": "start", "id": job.number, "argv": argv, "static": static},
            **{"env": {**launch.environment, folder.RUN_ENV: str(run)}},
            **{"cwd": os.getcwd(), "run": str(run)},
        }
        try:
            with self._lock:
                self._link.send(message)
        except OSError:
            pass  # the host has just ended: the job hears of it at the first look
        except BaseException:  # interrupted within a message: the next one would be read as its end
            self.discard()
            raise
        return job

    def stop(self, number: int) -> None:
        """Asks the host to stop a job."""
        try:
            with self._lock:
                self._link.send({"op": "stop", "id": number})
        except OSError:
            self.pump()

    def pump(self, timeout: float = 0.0) -> None:
        """Takes in what the host has said; waits up to ``timeout`` seconds for a word."""
        if self.lost or self.owner != os.getpid():
            return
        try:
            heard = select.select([self._link], [], [], timeout)[0]
        except ValueError:  # closed: another thread has found the host gone
            return
        if heard:
            with self._lock:
                self._take_in()

    def _take_in(self) -> None:
        if self.lost:
            return
        messages, _, open_ = self._link.receive()
        for message in messages:
            if message["event"] == "ready":
                self.ready = True
            elif job := self.jobs.get(message["id"]):
                job.hear(message)
        if not open_:
            self._lose()
        elif self._retiring and not self.jobs:
            self.retire()

    def _lose(self) -> None:
        """The host is gone, and with it (see ``host.fork``) every rank; nothing may be left."""
        self.lost = True
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for job in list(self.jobs.values()):
            for pid in (*job.ranks.values(), *job.groups):
                processes.kill_group(pid)
            if job.agent:
                processes.kill([job.agent])
                processes.kill_marked(folder.RUN_ENV, job.run)
            if not job.stopping:
                self._leave_words(job.run)
            job.hear({"event": "done", "code": 1})
        self._let_go()

    def _leave_words(self, run: str) -> None:
        """Notes in a run's log that the host has ended, and what it said last."""
        told = f"the warm host ended with exit code {self._process.returncode}"
        try:
            with open(os.path.join(run, folder.AGENT_LOG), "a") as log:
                log.write(f"{told}: {self.last_words()} (warm=False starts jobs without it)\n")
        except OSError:
            pass  # the run folder has gone, or its disk is full

    def _let_go(self) -> None:
        atexit.unregister(self.retire)
        self._link.close()
        self._log.close()

    def discard(self) -> None:
        """Ends the host now, with every job it has."""
        self._process.kill()
        with self._lock:
            self._lose()

    def last_words(self) -> str:
        """Returns the last line that the host printed."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def retire(self) -> None:
        """Lets the host go once its jobs are over; at the kernel's exit it goes with it."""
        if self.owner != os.getpid() or self.lost:
            return
        if self.jobs:
            self._retiring = True
            return
        self.lost = True
        self._let_go()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
