"""A process that plays the notebook's kernel, so that it can be interrupted and killed."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil

WITHIN = 3.0  # seconds in which nothing of a job may be left


class Kernel:
    """Runs code in a process and session of its own.

    Args:
        code: Python code; ``say(word)`` in it writes a line that ``heard`` waits for.
        folder: Where it runs.
        env: Further environment variables.
    """

    def __init__(self, code: str, folder: Path, env: dict[str, str] | None = None) -> None:
        self._said = folder / "said.txt"
        self._said.unlink(missing_ok=True)
        head = f"def say(*words): print(*words, file=open({str(self._said)!r}, 'a'))\n"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        self.output = (folder / "kernel.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", head + textwrap.dedent(code)],
            cwd=folder,
            env={**environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def said(self) -> list[str]:
        """Returns the lines that the code has said by now."""
        return self._said.read_text().splitlines() if self._said.exists() else []

    def hear(self, word: str, timeout: float = 60.0) -> str:
        """Waits for a line that starts with ``word`` and returns the rest of it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for line in self.said():
                if line.split(" ")[0] == word:
                    return line[len(word) + 1 :]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"never said {word}: {self.said()}\n{self.printed()}")

    def printed(self) -> str:
        """Returns what it wrote to stdout and stderr."""
        return Path(self.output.name).read_text()

    def family(self) -> dict[int, psutil.Process]:
        """Returns the live processes below it."""
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return {}
        return {child.pid: child for child in children}

    def interrupt(self) -> None:
        """Presses stop as Jupyter does: SIGINT to the kernel's whole process group."""
        os.killpg(self.pid, signal.SIGINT)

    def wait(self, timeout: float = 60.0) -> int:
        """Waits for its end; returns the exit code."""
        return self.process.wait(timeout)

    def close(self) -> None:
        """Ends it, and whatever it left."""
        family = self.family()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        gone(family, WITHIN)
        for process in family.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.output.close()


def alive(processes: dict[int, psutil.Process]) -> list[psutil.Process]:
    """Returns those that still run; psutil tells a process from a later one of the same pid."""
    found = []
    for process in processes.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def gone(processes: dict[int, psutil.Process], within: float) -> float | None:
    """Waits until none is left; returns the seconds it took, or None if that was too long."""
    start = time.monotonic()
    while alive(processes):
        if time.monotonic() - start > within:
            return None
        time.sleep(0.01)
    return time.monotonic() - start
