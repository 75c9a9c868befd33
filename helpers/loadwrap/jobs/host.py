"""The warm host: one process that has imported torch, and forks a job's processes from itself.

Most of the wait for a small job is ``import torch``, once per process. The host imports it
once. For each job it forks an *agent*, which runs torchrun's own code (``agent.py``); where
torchrun would start an interpreter for a rank, the agent asks the host to fork one
(``rank.py``). So the host is the parent of every process of every job: it sees each end at
once, and it can end them all.

The host never runs user code and never touches CUDA. It is single-threaded whenever it
forks. It leaves when its kernel does: it watches the connection *and* its parent's pid,
because a copy of the kernel's end may live on in some child of the kernel.
"""

from __future__ import annotations

import functools
import gc
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import folder
from . import processes, wire
from .stopping import Escalation

# Imported before the first job. torch._dynamo and torch.optim would otherwise cost each rank two
# seconds at its first optimizer. Nothing here bears a name that a user's own file may have.
_PRELOAD = (
    *("torch", "torch._dynamo", "torch.optim", "torch.utils.data", "torch.distributed"),
    *("torch.nn.parallel", "torch.distributed.run", "numpy", "sklearn.datasets"),
)
_LOOK_EVERY = 0.2  # seconds between two looks at the kernel's pid
_PATIENCE = 5.0  # seconds for a killed process to be gone; one in state D may stay
_STOPPED = 128 + signal.SIGINT  # exit code of a job that was stopped before it began


@dataclass
class _Job:
    number: int
    run: str
    agent: int
    link: wire.Link
    ranks: dict[int, int] = field(default_factory=dict)  # pid: rank, those alive
    groups: list[int] = field(default_factory=list)  # every rank's process group
    stop: Escalation | None = None
    code: int | None = None  # the agent's, once it has ended
    ended: float = 0.0


class _Host:
    def __init__(self, kernel: wire.Link, parent: int, started: frozenset[str]) -> None:
        self.kernel = kernel
        self.parent = parent
        self.started = started
        self.unsent: list[dict[str, Any]] = []
        self.jobs: dict[int, _Job] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(kernel, selectors.EVENT_READ)
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)
        self.selector.register(self.wake_read, selectors.EVENT_READ)

    def serve(self) -> Callable[[], None]:
        """Serves until the kernel is gone. Returns only in a forked child, with its work."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.tell({"event": "ready", "pid": os.getpid()})
        while True:
            for key, _ in self.selector.select(_LOOK_EVERY):
                work = self.handle(key)
                if work:
                    return work
            self.reap()
            self.conclude()
            self.press()
            self.tell()
            if os.getppid() != self.parent:
                self.leave()

    def handle(self, key: selectors.SelectorKey) -> Callable[[], None] | None:
        if key.fileobj is self.kernel:
            messages, _, open_ = self.kernel.receive()
            stopped = {message["id"] for message in messages if message["op"] == "stop"}
            for message in messages:
                if message["op"] == "start" and message["id"] in stopped:
                    self.tell({"event": "done", "id": message["id"], "code": _STOPPED})
                    continue
                work = self.obey(message)
                if work:
                    return work
            if not open_:
                self.leave()
        elif isinstance(key.data, _Job):
            return self.fork_ranks(key.data)
        else:
            try:
                os.read(self.wake_read, 4096)
            except BlockingIOError:
                pass
        return None

    def tell(self, message: dict[str, Any] | None = None) -> None:
        """Sends the kernel what it can take now; a busy kernel must not hold the host up."""
        if message:
            self.unsent.append(message)
        while self.unsent and self.kernel.writable():
            try:
                self.kernel.send(self.unsent[0])
            except OSError:
                self.leave()
            del self.unsent[0]

    def obey(self, message: dict[str, Any]) -> Callable[[], None] | None:
        if message["op"] == "start":
            return self.fork_agent(message)
        job = self.jobs.get(message["id"])
        if job and message["op"] == "stop":
            if job.stop:
                job.stop.hurry()
            job.stop = job.stop or Escalation()
        return None

    def fork(self, *, guarded: bool) -> int:
        """Forks; the child has a session of its own and none of the host's connections.

        ``guarded`` children end with the host. The agent is not: it first ends its ranks' groups.
        """
        host = os.getpid()
        ready_read, ready_write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(ready_write)
            os.read(ready_read, 1)  # returns when the child has its session
            os.close(ready_read)
            return pid
        if guarded:
            processes.die_with_parent()
        if os.getppid() != host:  # it ended before it could be watched
            os._exit(1)
        os.setsid()
        os.close(ready_read)
        os.close(ready_write)
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Closed as objects, not by number: a stale object would later close somebody else's file.
        self.selector.close()
        for end in (self.wake_read, self.wake_write):
            os.close(end)
        for link in (self.kernel, *(job.link for job in self.jobs.values())):
            link.close()
        return 0

    def fork_agent(self, message: dict[str, Any]) -> Callable[[], None] | None:
        ours, theirs = wire.pair()
        host = os.getpid()
        pid = self.fork(guarded=False)
        if not pid:
            ours.close()
            from . import agent

            return functools.partial(agent.main, message, theirs, host)
        theirs.close()
        job = _Job(message["id"], message["run"], pid, ours)
        self.jobs[job.number] = job
        self.selector.register(ours, selectors.EVENT_READ, job)
        self.tell({"event": "agent", "id": job.number, "pid": pid})
        return None

    def fork_ranks(self, job: _Job) -> Callable[[], None] | None:
        messages, descriptors, open_ = job.link.receive()
        if not open_:  # the agent has ended, or will at once; reap() does the rest
            self.selector.unregister(job.link)
        for number, message in enumerate(messages):
            out, err = descriptors[2 * number : 2 * number + 2]
            pid = self.fork(guarded=True)
            if not pid:
                from . import rank

                return functools.partial(rank.main, message, out, err, self.started)
            os.close(out)
            os.close(err)
            where = {"rank": message["rank"], "local_rank": message["local_rank"]}
            job.ranks[pid] = where["rank"]
            job.groups.append(pid)
            self.answer(job, {"pid": pid})
            self.tell({"event": "rank", "id": job.number, "pid": pid, **where})
        return None

    def answer(self, job: _Job, message: dict[str, Any]) -> None:
        try:
            job.link.send(message)
        except OSError:
            pass  # the agent is gone; reap() ends its job

    def reap(self) -> None:
        """Takes note of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            moment, code = time.time_ns(), os.waitstatus_to_exitcode(status)
            for job in list(self.jobs.values()):
                if pid == job.agent:
                    self.finish(job, code)
                elif pid in job.ranks:
                    rank = job.ranks.pop(pid)
                    self.answer(job, {"pid": pid, "code": code})
                    event = {"event": "exit", "id": job.number, "rank": rank, "pid": pid}
                    # After the agent's end it was this process that ended the rank.
                    failed = {"code": code, "time_ns": moment} if job.code is None else {}
                    self.tell({**event, **failed})

    def finish(self, job: _Job, code: int) -> None:
        """Ends what is left of a job whose agent has ended."""
        job.code, job.ended = code, time.monotonic()
        if job.link.fileno() in self.selector.get_map():
            self.selector.unregister(job.link)
        job.link.close()
        for group in job.groups:  # a rank's DataLoader workers are in its group
            processes.kill_group(group)

    def conclude(self) -> None:
        """Says that a job is done, once its ranks are gone and what they started is swept."""
        for job in list(self.jobs.values()):
            if job.code is None or (job.ranks and time.monotonic() - job.ended < _PATIENCE):
                continue
            del self.jobs[job.number]
            self.sweep(job)
            self.tell({"event": "done", "id": job.number, "code": job.code})

    def sweep(self, job: _Job) -> None:
        """Ends what left its rank's group: without its parent, it is a child of this process."""
        ours = {job.agent for job in self.jobs.values()}
        ours.update(pid for job in self.jobs.values() for pid in job.ranks)
        table = processes.parents()
        for pid in [pid for pid, parent in table.items() if parent == os.getpid()]:
            if pid in ours:
                continue
            # A process that only forked shows this process's environment, whichever job it is of.
            run = processes.environment(pid).get(folder.RUN_ENV, "" if self.jobs else job.run)
            if run == job.run:
                processes.kill([*processes.descendants(pid, table), pid])

    def press(self) -> None:
        """Sends a job that is to stop the signal that is due."""
        for job in self.jobs.values():
            signum = job.stop.due() if job.stop and job.code is None else None
            if signum == signal.SIGKILL:
                for group in job.groups:
                    processes.kill_group(group)
            if signum:
                processes.kill([job.agent], signum)

    def leave(self) -> None:
        processes.end_descendants(_PATIENCE)
        os._exit(0)


def main(started: frozenset[str]) -> None:
    """Runs the host: ``sys.argv`` holds the connection's descriptor and the kernel's pid.

    Args:
        started: The modules that were loaded before any of ours.
    """
    kernel, parent = wire.from_descriptor(int(sys.argv[1])), int(sys.argv[2])
    sys.argv[:] = [sys.argv[0]]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # stop buttons are the kernel's to handle
    processes.adopt_orphans()
    _preload(parent)
    host = _Host(kernel, parent, started)
    work = host.serve()
    del host, kernel
    work()


def _preload(parent: int) -> None:
    """Imports what every job needs, leaving at once should the kernel end meanwhile."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if os.getppid() != parent:
                os._exit(0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    for name in _PRELOAD:
        try:
            __import__(name)
        except ImportError:
            continue  # numpy and scikit-learn are not everybody's
    done.set()
    watcher.join()
    gc.collect()
    gc.freeze()  # a collection in a rank would touch, and so copy, every page shared with us
