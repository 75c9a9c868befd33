"""A job that this process has started: its record, its stalls, and how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import client, cold, failures, processes, runfolder
from .errors import JobFailed, JobStalled, JobStopped, LaunchError
from .job import Job
from .options import Launch
from .stalls import Watch

_GONE_WITHIN = 5.0  # seconds for a stopped job; what it takes is two


class StartedJob:
    """A job in a run folder, whose record it keeps; ``begin`` starts it.

    Args:
        launch: What to start.
        directory: The run folder, which exists.
        warm: Whether to fork its ranks where that can be done.
        stall_timeout: Seconds of silence after which it is stopped; None for never.
        pattern: Kept in the record for whoever opens the run later.

    Attributes:
        job: The job; None before it is started.
        record: What ``run.json`` holds.
        error: What whoever waits for the job is to be told, once it has ended.
    """

    def __init__(
        self,
        launch: Launch,
        directory: Path,
        *,
        warm: bool,
        stall_timeout: float | None,
        pattern: str | None,
    ) -> None:
        """Writes down what is to be started."""
        self.directory = directory
        self.job: Job | None = None
        self._launch = launch
        self.error: JobFailed | JobStalled | JobStopped | None = None
        self._stall_timeout = stall_timeout
        self._began = time.monotonic()
        self._forked = warm and launch.forkable and client.possible()
        self.record: dict[str, Any] = {
            "command": launch.command,
            "argv": launch.argv(),
            "cwd": os.getcwd(),
            "nproc_per_node": str(launch.options["nproc_per_node"]),
            "warm": self._forked,
            "pattern": pattern,
            "started": time.time(),
            "kernel": os.getpid(),
            "out_of_memory_kills": processes.out_of_memory_kills(),
        }
        runfolder.write(directory, self.record)
        self.watch: Watch | None = None

    def begin(self) -> None:
        """Starts the job; returns at once.

        Raises:
            LaunchError: No process could be started.
        """
        launch, directory = self._launch, self.directory
        try:
            if self._forked:
                self.job = client.host_for(launch.environment).start(launch, directory)
            else:
                self.job = cold.start(launch, directory)
        except OSError as error:
            raise LaunchError(f"torchrun could not be started: {error}.") from None
        self.watch = Watch(directory, self.job)

    def look_for_life(self, say: Callable[[str], None]) -> None:
        """Says where the ranks stand if none gives a sign of life; stops a job that stalls."""
        if self.job is None or self.watch is None:
            return
        if self.watch.look():
            say(f"No sign of life for a minute: {self.watch.report()}.")
        silent = self.watch.silent_for
        if self._stall_timeout and silent >= self._stall_timeout and self.job.ready:
            report = self.watch.report()
            self.error = JobStalled(
                f"No rank logged or printed anything for {self._stall_timeout:g} s; the job was "
                "stopped. Where they stood:",
                report=report,
                directory=self.directory,
            )
            self.stop()

    def stop(self) -> None:
        """Stops the job and waits until it is gone; interrupted, it ends the job at once."""
        if self.job and not self.job.ended:
            self.job.stop()
            try:
                self.job.wait(_GONE_WITHIN)
            except KeyboardInterrupt:
                self.job.stop()
                self.job.wait(_GONE_WITHIN)
        self.settle()

    def settle(self) -> None:
        """Writes down, once, how the job ended."""
        if self.job is None or "state" in self.record:
            return
        state = "finished"
        if self.error is None and self.job.stopping:
            state = "stopped"
            self.error = JobStopped(
                "The job was stopped; none of its processes is left. "
                f"What it wrote: Run.open({os.path.relpath(self.directory)!r})."
            )
        elif self.error is None and self.job.code != 0:
            nproc = self.record["nproc_per_node"]
            ranks = int(nproc) if nproc.isdigit() else None
            kills = self.record["out_of_memory_kills"]
            self.error = failures.failure(self.directory, self.job, ranks, kills)
        if isinstance(self.error, JobFailed | JobStalled):
            state = "failed"
        seconds = time.monotonic() - self._began
        self.record.update(state=state, code=self.job.code, seconds=seconds)
        runfolder.write(self.directory, self.record)
