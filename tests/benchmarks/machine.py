"""The machine: what it is, and whether somebody else is using it."""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

CORES = 2
BUSY = 0.15


def use_two_cores() -> int:
    """Keeps this process, and all that it starts, on two cores; returns how many it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)
    return len(cores)


def facts(cores: int) -> str:
    """Returns one line about the machine."""
    return (
        f"{cores} of {os.cpu_count()} cores ({_processor()}), Python {platform.python_version()}, "
        f"torch {version('torch')}, {platform.system()} {platform.release()}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def load_of_others(sample_s: float = 1.0) -> float:
    """Returns the share of the cores that is used while this process only waits."""
    before = _ticks()
    time.sleep(sample_s)
    after = _ticks()
    total = after[0] - before[0]
    return (after[1] - before[1]) / total if total else 0.0


def wait_until_quiet(patience_s: float) -> float:
    """Waits until nobody else uses the machine, but not for ever; returns the load of others."""
    end = time.monotonic() + patience_s
    while (load := load_of_others()) > BUSY and time.monotonic() < end:
        pass  # to look takes a second
    return load


def _ticks() -> tuple[int, int]:
    """Returns all ticks of the cores in use, and those in which something ran."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    total = busy = 0
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0, 0
    for line in lines:
        name, *fields = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            ticks = [int(field) for field in fields[:8]]
            total += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]  # idle, and waiting for a disk
    return total, busy
