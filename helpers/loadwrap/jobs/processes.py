"""Looks at processes: who descends from whom, who is alive, how much CPU each has used.

Linux keeps all of this in ``/proc``; elsewhere ``ps`` is asked, which is slower and knows
less. Nothing here is specific to a job.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable

LINUX = sys.platform.startswith("linux")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_QUIET_LOOKS = 3


def prctl(option: int, value: int) -> None:
    """Calls Linux's ``prctl(2)``; does nothing elsewhere."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """Asks the kernel to send ``signum`` to this process when its parent *thread* ends."""
    prctl(_PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Makes orphans below this process its own children instead of init's."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def parents() -> dict[int, int]:
    """Returns ``{pid: parent pid}`` of every live process; zombies are left out."""
    if not LINUX:
        return _parents_from_ps()
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) and fields[0] != "Z":
            found[int(name)] = int(fields[1])
    return found


def _parents_from_ps() -> dict[int, int]:
    import subprocess  # on Linux never needed: a rank that only logs need not load it

    text = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in text.splitlines())
    return {int(r[0]): int(r[1]) for r in rows if len(r) >= 3 and not r[2].startswith("Z")}


def descendants(pid: int, table: dict[int, int] | None = None) -> list[int]:
    """Returns the live processes below ``pid``, nearest first."""
    children: dict[int, list[int]] = {}
    for child, parent in (parents() if table is None else table).items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for one in found:  # grows while it is walked: breadth first
        found.extend(children.get(one, ()))
    return found


def _stat(pid: int) -> list[str]:
    """Returns the fields of ``/proc/PID/stat`` from the third on (state, parent, …)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the name in parentheses and may hold anything.
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Tells whether a process exists and is not a zombie."""
    if LINUX:
        return bool(fields := _stat(pid)) and fields[0] != "Z"
    return pid in _parents_from_ps()


def cpu_seconds(pid: int) -> float | None:
    """Returns the CPU time a process has used, in seconds; None where it cannot be read."""
    fields = _stat(pid) if LINUX else []
    if len(fields) < 13:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def catches(pid: int, signum: int) -> bool:
    """Tells whether a process has a handler for a signal, so that it may be sent.

    Reads ``SigCgt`` of ``/proc/PID/status`` (a bit mask, see proc(5)); False where unknown.
    """
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    except (OSError, ValueError):
        pass
    return False


def environment(pid: int) -> dict[str, str]:
    """Returns the environment a process was started with; empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def kill(pids: Iterable[int], signum: int = signal.SIGKILL) -> None:
    """Signals each process; one that is gone already is passed over."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except (ProcessLookupError, PermissionError):
            continue


def end_descendants(patience: float) -> None:
    """Kills all below this process, which must adopt orphans, and what appears meanwhile.

    A look at all processes takes a while: one whose parent ends in the middle of it is seen below
    nobody. So it takes several looks that find nothing.
    """
    end, quiet = time.monotonic() + patience, 0
    while quiet < _QUIET_LOOKS and time.monotonic() < end:
        pids = descendants(os.getpid())
        kill(pids)
        quiet = 0 if pids else quiet + 1
        time.sleep(0.01)


def kill_marked(name: str, value: str) -> None:
    """Kills every process that was started with this value of an environment variable."""
    for _ in range(2):  # the second look finds what was just being started at the first
        kill(pid for pid in parents() if environment(pid).get(name) == value)
        time.sleep(0.02)


def kill_group(group: int, signum: int = signal.SIGKILL) -> None:
    """Signals every process of a group; a group that is empty is passed over."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return


def free_memory() -> int | None:
    """Returns the bytes of memory that new processes can take; None where unknown.

    Linux only: ``MemAvailable`` of ``/proc/meminfo``, or what is left under the limit of this
    process's control group (version 2) where that is less, as in a container.
    """
    try:
        with open("/proc/meminfo") as file:
            rows = dict(line.split(":", 1) for line in file)
        free = int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            limit = int(file.read())
        with open("/sys/fs/cgroup/memory.current") as file:
            free = min(free, limit - int(file.read()))
    except (OSError, ValueError):
        pass
    return max(free, 0)


def out_of_memory_kills() -> int | None:
    """Returns how often Linux has ended a process for want of memory; None where unknown."""
    try:
        with open("/proc/vmstat") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None
