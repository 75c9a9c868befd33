"""Finds the rank that failed first, and says in one sentence what became of it.

When one rank fails, the others fail after it: their peer is gone, or torchrun ends them.
torchrun notes whole seconds and often names the wrong one. Here each rank's own moment
decides, to the nanosecond, and errors that only tell of a lost peer come last.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import folder
from . import processes
from .errors import JobFailed
from .job import Job, RankEnd
from .notebook import cells
from .tracebacks import last_line, last_traceback, last_words, users_frames

_PEER = re.compile(
    r"Connection (closed|reset) by peer|Connection was likely closed|Broken pipe|recvValue failed"
    r"|Timed out waiting \d+ms for (recv|send)|Socket Timeout|remote process exited"
    r"|failed to connect to|The client socket has timed out|Application timeout caused pair closure"
)
_REPORT = re.compile(
    r"rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)\s+exitcode\s+: (?P<code>-?\d+) \(pid"
)
_NEVER = 1 << 63
_NO_ROOM = 64 * 1024  # bytes: a disk with less is full, and what a rank said last was lost


@dataclass
class _End:
    rank: int
    code: int
    time_ns: int
    traceback: str
    words: str = ""  # what it last wrote to standard error

    @property
    def order(self) -> tuple[int, int]:
        """Sorts the cause before what it caused."""
        if self.code == -signal.SIGTERM:
            return 3, self.time_ns  # torchrun ended it because another had failed
        if _PEER.search(last_line(self.traceback)):
            return 2, self.time_ns
        if self.code == -signal.SIGKILL and self.time_ns >= _NEVER - 1:
            return 1, 0  # killed by Linux, or by torchrun at last: a raised error goes before it
        return 0, self.time_ns


def failure(run: Path, job: Job, ranks: int | None, kills_before: int | None) -> JobFailed:
    """Returns the exception that tells how a job failed.

    Args:
        run: The run folder.
        job: The job, which has ended badly.
        ranks: How many ranks it had on this machine, where that is known.
        kills_before: ``processes.out_of_memory_kills()`` from before its start.
    """
    ends = [end for end in _ends(run, job) if end.code != 0]
    if not ends:
        return _torchrun_failed(run, job)
    first = min(ends, key=lambda end: end.order)
    of = f" of {ranks}" if ranks else ""
    text = cells.translate(users_frames(first.traceback))
    return JobFailed(
        f"Rank {first.rank}{of} failed first: {_what(first, kills_before)}{_disk(run, text)}",
        rank=first.rank,
        exitcode=first.code,
        traceback=text,
        directory=run,
    )


def _what(end: _End, kills_before: int | None) -> str:
    raised = last_line(end.traceback).split(":")[0].strip()
    if raised and end.code == -signal.SIGABRT:  # gloo's threads, when a process group is left over
        return f"{raised}; it then aborted while it ended (signal 6)."
    if end.code < 0:
        try:
            name = signal.Signals(-end.code).name
        except ValueError:
            name = "an unnamed signal"
        told = f"killed by signal {-end.code} ({name})"
        if end.code != -signal.SIGKILL:
            return told + "."
        now = processes.out_of_memory_kills()
        if now is not None and kills_before is not None and now > kills_before:
            return (
                told + ", because the machine ran out of memory: use fewer ranks, a smaller "
                "model or a smaller batch."
            )
        return told + ": most likely out of memory (fewer ranks or a smaller batch need less)."
    if raised:
        return f"{raised}, exit code {end.code}."
    told = f"it left with exit code {end.code} and no traceback"
    return f"{told}; it said last: {end.words}" if end.words else f"{told}."


def _disk(run: Path, text: str) -> str:
    if "No space left on device" in text or _full(run):
        return " A disk is full: free some space, or write somewhere else."
    if "Read-only file system" in text:
        return " It wrote to a read-only disk: give it a folder that can be written to."
    return ""


def _full(run: Path) -> bool:
    try:
        return shutil.disk_usage(run).free < _NO_ROOM
    except OSError:  # the run folder has gone
        return False


def _ends(run: Path, job: Job) -> list[_End]:
    """Returns how each rank ended, from the best witness there is."""
    records = {rank: _record(path) for rank, path in folder.rank_files(run / folder.ERRORS).items()}
    if job.ends:  # warm: the host saw every end; of a restarted rank the last one counts
        last = {end.rank: end for end in job.ends}
        return [_seen(run, end, records.get(end.rank, {}), len(last)) for end in last.values()]
    try:
        report = (run / folder.AGENT_LOG).read_text(errors="replace")
    except OSError:
        report = ""
    # Of ranks that left no moment, the one that torchrun's own look found first goes first.
    first_found = report.rfind("Root Cause")
    ends = {}
    for match in _REPORT.finditer(report):
        text, moment = _printed(run, int(match["local"]))
        rank, trace = int(match["rank"]), last_traceback(text)
        if not trace:
            moment = _NEVER - (match.start() > first_found >= 0)
        ends[rank] = _End(rank, int(match["code"]), moment, trace, last_words(text))
    return list(ends.values())


def _seen(run: Path, end: RankEnd, record: dict[str, Any], ranks_here: int) -> _End:
    """Puts together what the host saw of a rank's end and what the rank left."""
    text, _ = _printed(run, end.rank % ranks_here)
    trace = last_traceback(str(record.get("traceback", ""))) or last_traceback(text)
    moment = int(record.get("time_ns", end.time_ns))
    return _End(end.rank, end.code, moment, trace, last_words(text))


def _record(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _printed(run: Path, local_rank: int) -> tuple[str, int]:
    """Returns the end of what a rank wrote to standard error, and when it last did (ns)."""
    files = folder.output_files(run, "stderr").get(local_rank, [])
    if not files:
        return "", _NEVER
    try:
        with files[-1].open("rb") as file:
            moment = os.fstat(file.fileno()).st_mtime_ns
            file.seek(max(0, os.fstat(file.fileno()).st_size - 200_000))
            return file.read().decode(errors="replace"), moment
    except OSError:
        return "", _NEVER


def _torchrun_failed(run: Path, job: Job) -> JobFailed:
    try:
        lines = (run / folder.AGENT_LOG).read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    said = next((line for line in reversed(lines) if line.strip()), "")
    code = job.code
    if code is not None and (code < 0 or code > 128) and "Error" not in said:
        number = -code if code < 0 else code - 128
        headline = f"torchrun itself was killed by signal {number}; its ranks were ended with it."
    elif "EADDRINUSE" in said or "address already in use" in said.lower():
        port = re.search(r"port: (\d+)", said)
        headline = f"Port {port[1]} is in use" if port else "The port is in use"
        headline += ": give another one, or none."
    elif said:
        headline = f"torchrun itself failed (exit code {code}). It said last: {said.strip()}"
    else:
        headline = f"torchrun itself ended with exit code {code} and said nothing."
    headline += _disk(run, said)
    return JobFailed(headline, exitcode=code, directory=run)
