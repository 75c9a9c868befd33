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
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .. import folder
from . import agent, processes, rank, wire
from .hosted import HostedJob, sweep
from .preload import preload
from .stopping import Escalation

_LOOK_EVERY = 0.2  # seconds between two looks at the kernel's pid
_PATIENCE = 5.0  # seconds for a killed process to be gone; one in state D may stay
_STOPPED = 128 + signal.SIGINT  # exit code of a job that was stopped before it began


class _Host:
    def __init__(self, kernel: wire.Link, parent: int, started: frozenset[str]) -> None:
        self.kernel = kernel
        self.parent = parent
        self.loaded = rank.Loaded.since(started)
        self.unsent: list[dict[str, Any]] = []
        self.jobs: dict[int, HostedJob] = {}
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
        elif isinstance(key.data, HostedJob):
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
        try:
            pid = os.fork()
        except OSError:
            os.close(ready_read)
            os.close(ready_write)
            raise
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
        host = os.getpid()
        try:
            ours, theirs = wire.pair()
            pid = self.fork(guarded=False)
        except OSError as error:
            self.refuse(message, error)
            return None
        if not pid:
            ours.close()
            return functools.partial(agent.main, message, theirs, host)
        theirs.close()
        job = HostedJob(message["id"], message["run"], pid, ours)
        self.jobs[job.number] = job
        self.selector.register(ours, selectors.EVENT_READ, job)
        self.tell({"event": "agent", "id": job.number, "pid": pid})
        return None

    def refuse(self, message: dict[str, Any], error: OSError) -> None:
        """Tells that there is no room for a job: processes, memory or descriptors ran out."""
        try:
            with open(os.path.join(message["run"], folder.AGENT_LOG), "a") as log:
                log.write(f"the warm host could not fork: {error}\n")
        except OSError:
            pass  # for the same want, perhaps; that the job has failed is told all the same
        self.tell({"event": "done", "id": message["id"], "code": 1})

    def fork_ranks(self, job: HostedJob) -> Callable[[], None] | None:
        messages, descriptors, open_ = job.link.receive()
        if not open_:  # the agent has ended, or will at once; reap() does the rest
            self.selector.unregister(job.link)
        for number, message in enumerate(messages):
            try:
                # Where this process may open no more, a descriptor that was sent does not arrive.
                out, err = descriptors[2 * number : 2 * number + 2]
                pid = self.fork(guarded=True)
            except (OSError, ValueError) as error:
                missing = isinstance(error, ValueError)
                self.answer(job, {"error": "Too many open files" if missing else str(error)})
                continue
            if not pid:
                return functools.partial(rank.main, message, out, err, self.loaded)
            where = {"rank": message["rank"], "local_rank": message["local_rank"]}
            job.ranks[pid] = where["rank"]
            job.groups.append(pid)
            self.answer(job, {"pid": pid})
            self.tell({"event": "rank", "id": job.number, "pid": pid, **where})
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def answer(self, job: HostedJob, message: dict[str, Any]) -> None:
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

    def finish(self, job: HostedJob, code: int) -> None:
        """Ends what is left of a job whose agent has ended."""
        job.code, job.ended = code, time.monotonic()
        if job.link.fileno() in self.selector.get_map():
            self.selector.unregister(job.link)
        job.link.close()
        job.kill_groups()

    def conclude(self) -> None:
        """Says that a job is done, once its ranks are gone and what they started is swept."""
        for job in list(self.jobs.values()):
            if job.code is None or (job.ranks and time.monotonic() - job.ended < _PATIENCE):
                continue
            del self.jobs[job.number]
            sweep(job, self.jobs.values())
            self.tell({"event": "done", "id": job.number, "code": job.code})

    def press(self) -> None:
        """Sends a job that is to stop the signal that is due."""
        for job in self.jobs.values():
            job.press()

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
    preload(parent)
    host = _Host(kernel, parent, started)
    work = host.serve()
    del host, kernel
    work()
