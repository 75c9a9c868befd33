"""Reads one run: its curves, its ranks' output. Knows where a run keeps what; draws nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import folder
from .jobs.errors import LaunchError

if TYPE_CHECKING:
    from .curves.follow import Curves, MetricsFollower, PatternFollower


_STILL = 3.0  # seconds without a write after which half a line is all there will be


class Reader:
    """Reads what ranks logged or, with a pattern, what they printed.

    Args:
        pattern: None for what ``log`` wrote; else a regular expression for the output.
    """

    def __init__(self, pattern: str | None) -> None:
        """Checks the pattern; raises LaunchError if it cannot be used."""
        self.pattern = pattern
        self._run = Path()
        self._follower: MetricsFollower | PatternFollower | None = None
        if pattern is not None:
            from .curves.pattern import check_pattern

            try:
                check_pattern(pattern)
            except ValueError as error:
                raise LaunchError(str(error)) from None

    def at(self, run: Path) -> Reader:
        """Points the reader at a run folder, or at one plain log file."""
        self._run = run
        return self

    def poll(self) -> bool:
        """Takes in what is new; returns whether there was anything."""
        return self._begin().poll()

    def read(self) -> Curves:
        """Takes in all there is by now, and returns it; half a line waits for its other half."""
        follower = self._begin()
        follower.catch_up()
        return follower.curves

    def finish(self) -> None:
        """Takes in all there is, the last line included: the run has ended."""
        self._begin().finish()

    def still(self) -> bool:
        """Tells whether nobody has written to the run for some seconds."""
        places = [self._run, *self._run.glob("*/**/*")] if self._run.is_dir() else [self._run]
        now = time.time()
        return all(now - path.stat().st_mtime > _STILL for path in places)

    @property
    def ended(self) -> bool:
        """Whether every rank has noted its own end; what was only printed has no such note."""
        return self._begin().curves.ended

    @property
    def unmatched(self) -> int:
        """How many lines a pattern was tried on, if it never matched; else 0."""
        follower = self._begin()
        lines = 0 if self.pattern is None else getattr(follower, "lines", 0)
        return 0 if follower.curves.metrics else lines

    @property
    def curves(self) -> Curves:
        """What has been taken in so far."""
        return self._begin().curves

    def _begin(self) -> MetricsFollower | PatternFollower:
        if self._follower is None:
            try:
                from .curves.follow import MetricsFollower, PatternFollower
            except ImportError as error:  # the core depends on torch alone
                need = f": pip install {error.name}" if error.name else ""
                raise LaunchError(f"Curves cannot be read ({error}){need}.") from None

            if self.pattern is None:
                self._follower = MetricsFollower(self._run)
            elif self._run.is_file():
                self._follower = PatternFollower.of_log(self._run, self.pattern)
            else:
                self._follower = PatternFollower(self._printed, self.pattern)
        return self._follower

    def _printed(self) -> dict[int, list[Path]]:
        """Returns every file that a rank printed to; loggers and tqdm use standard error."""
        found: dict[int, list[Path]] = {}
        for stream in ("stdout", "stderr"):
            for local_rank, paths in folder.output_files(self._run, stream).items():
                found.setdefault(self._rank(local_rank), []).extend(paths)
        return found

    def _rank(self, local_rank: int) -> int:
        """Returns the rank that has a local rank here: they differ beyond the first machine."""
        headers = self._follower.curves.headers if self._follower else {}
        for rank, header in headers.items():
            if header.get("local_rank") == local_rank:
                return rank
        return local_rank

    def ranks(self) -> tuple[int, ...]:
        """Returns the ranks that logged or printed, or whose output is kept."""
        found = set(self.read().ranks)
        if not self._run.is_file():
            found |= {self._rank(local) for local in folder.output_files(self._run, "stdout")}
        return tuple(sorted(found))

    def output(self, rank: int, stream: str) -> str:
        """Returns what a rank printed; the attempts of a restarted rank follow one another.

        Raises:
            LaunchError: There is no such rank; it lists those there are.
        """
        self._begin().poll()
        if self._run.is_file():
            return self._run.read_text(errors="replace")
        files = {
            self._rank(local): paths
            for local, paths in folder.output_files(self._run, stream).items()
        }
        if rank not in files:
            ranks = ", ".join(map(str, files)) or "none yet"
            raise LaunchError(f"There is no output of rank {rank}; the ranks here: {ranks}.")
        return "".join(path.read_text(errors="replace") for path in files[rank])
