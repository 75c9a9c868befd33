"""What a launch can say: each error is one sentence, and what there is to see beneath it."""

from __future__ import annotations

import os
from pathlib import Path


class _Told:
    """Mixin: a notebook shows the message alone, not the frames of this library."""

    def _render_traceback_(self) -> list[str]:
        return f"{type(self).__name__}: {self}".splitlines()


class LaunchError(_Told, ValueError):
    """A call that cannot start a job: a bad option, no such script, no room for the run.

    Example:
        >>> from loadwrap import LaunchError, torchrun
        >>> try:
        ...     torchrun("no_such_script.py")
        ... except LaunchError as error:
        ...     print(str(error)[:31])
        There is no script no_such_scri
    """


class JobFailed(_Told, RuntimeError):
    """A job ended badly. Its text ends with the traceback of the rank that failed first.

    Attributes:
        rank: The rank that failed first, or None if torchrun itself failed.
        exitcode: That rank's exit code; negative for a signal, as ``subprocess`` has it.
        traceback: That rank's traceback, cut to its own frames; empty if it left none.
        directory: The run folder, with everything each rank wrote.

    Example:
        >>> from loadwrap import JobFailed
        >>> try:
        ...     raise JobFailed("rank 1 was killed", rank=1, exitcode=-9)
        ... except JobFailed as error:
        ...     error.rank, error.exitcode
        (1, -9)
    """

    def __init__(
        self,
        headline: str,
        *,
        rank: int | None = None,
        exitcode: int | None = None,
        traceback: str = "",
        directory: Path | None = None,
    ) -> None:
        """Keeps what is known about the failure; the text is put together here."""
        self.headline = headline
        self.rank = rank
        self.exitcode = exitcode
        self.traceback = traceback
        self.directory = directory
        where = f"Everything it wrote is in {os.path.relpath(directory)}" if directory else ""
        super().__init__("\n".join(part for part in (headline, where, traceback.rstrip()) if part))


class JobStalled(_Told, RuntimeError):
    """No rank gave a sign of life for ``stall_timeout`` seconds; the job was stopped.

    Attributes:
        report: Where every rank stood, one line a rank.
        directory: The run folder.

    Example:
        >>> from loadwrap import JobStalled
        >>> JobStalled("silent for 5 s", report="rank 0 in barrier at train.py:88").report
        'rank 0 in barrier at train.py:88'
    """

    def __init__(self, headline: str, *, report: str = "", directory: Path | None = None) -> None:
        """Keeps the report; the text is put together here."""
        self.report = report
        self.directory = directory
        super().__init__("\n".join(part for part in (headline, report) if part))


class JobStopped(_Told, KeyboardInterrupt):
    """The stop button (or Ctrl-C) ended the job.

    It is a ``KeyboardInterrupt``, so the cells that were queued behind it do not run.

    Example:
        >>> from loadwrap import JobStopped
        >>> issubclass(JobStopped, KeyboardInterrupt)
        True
    """
