"""Notices that a job gives no sign of life, and says where every rank stands."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .. import folder
from . import processes, stacks
from .cold import ColdJob
from .job import Job

QUIET_FOR = 60.0  # seconds without any sign of life before a line is shown
_CPU_SHARE = 0.02  # of one core: ranks blocked in gloo still use about 0.3 %
_LOOK_EVERY = 1.0  # seconds
_CPU_WINDOW = 5.0  # seconds; CPU time is counted in ticks of 10 ms
_ANSWER_WITHIN = 1.5  # seconds for the ranks to dump their stacks
_ANSWERED_AFTER = 0.1  # seconds without another line: frames are written one by one


class Watch:
    """Watches one job for signs of life.

    Two measures: *silence* (no ``log``, no output) and *lifelessness* (silence, and no rank uses
    2 % of a core).

    Args:
        run: The run folder.
        job: The job.
        now: Seconds of ``time.monotonic``.
    """

    def __init__(self, run: Path, job: Job, now: float | None = None) -> None:
        """Starts the clock."""
        now = time.monotonic() if now is None else now
        self._run, self._job = run, job
        self._seen: object = None
        self._looked = self._wrote = self._lived = self._sampled = now
        self._cpu: dict[int, float] = {}
        self._told = False

    def look(self, quiet_for: float = QUIET_FOR) -> bool:
        """Returns True once per pause, when no rank has lived for ``quiet_for`` seconds."""
        now = time.monotonic()
        if now - self._looked < min(_LOOK_EVERY, quiet_for / 4):
            return False
        self._looked = now
        seen = _signature(self._run)
        if seen != self._seen or not self._job.ready:
            self._seen, self._wrote, self._lived, self._told = seen, now, now, False
        if now - self._sampled >= min(_CPU_WINDOW, quiet_for / 2):
            if self._busy(now - self._sampled):
                self._lived, self._told = now, False
            self._sampled = now
        if self._told or now - self._lived < quiet_for:
            return False
        self._told = True
        return True

    @property
    def silent_for(self) -> float:
        """Seconds since a rank last logged or printed."""
        return time.monotonic() - self._wrote

    def _busy(self, seconds: float) -> bool:
        before, self._cpu = self._cpu, {}
        for pid in _pids(self._job).values():
            used = processes.cpu_seconds(pid)
            if used is not None:
                self._cpu[pid] = used
        if not self._cpu:
            return True  # nothing can be measured here; only silence counts
        return any(
            used - before.get(pid, 0.0) >= _CPU_SHARE * seconds for pid, used in self._cpu.items()
        )

    def report(self) -> str:
        """Returns one line: where every rank stands."""
        pids = _pids(self._job)
        starts = {rank: stacks.ask(self._run, rank, pid) for rank, pid in pids.items()}
        end = time.monotonic() + _ANSWER_WITHIN
        told = {
            rank: "cannot be asked (it never imported loadwrap)"
            for rank, start in starts.items()
            if start is None
        }
        heard: dict[int, tuple[int, float]] = {}  # size of an answer, and since when it has it
        while time.monotonic() < end and len(told) < len(starts):
            time.sleep(0.02)
            for rank, start in starts.items():
                if start is None or rank in told:
                    continue
                size, now = _size(folder.stack_file(self._run, rank)), time.monotonic()
                if rank not in heard or heard[rank][0] != size:
                    heard[rank] = size, now
                elif now - heard[rank][1] > _ANSWERED_AFTER:
                    if where := stacks.read(self._run, rank, start):
                        told[rank] = where
        lines = [f"rank {rank} {told.get(rank, 'did not answer')}" for rank in sorted(pids)]
        return ", ".join(lines) or "no rank is running"


def _pids(job: Job) -> dict[int, int]:
    return dict(sorted((job.look() if isinstance(job, ColdJob) else job.ranks).items()))


def _signature(run: Path) -> object:
    """Something that changes whenever a rank logs or prints."""
    files = list(folder.rank_files(run / folder.METRICS).values())
    for stream in ("stdout", "stderr"):
        files += [path for paths in folder.output_files(run, stream).values() for path in paths]
    return [(str(path), _size(path)) for path in files]


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
