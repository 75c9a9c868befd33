"""Finds curves in the output of a script that never heard of ``log``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from .store import Curves
from .tail import Tail

Paths = Mapping[int, Sequence[str | os.PathLike[str]]]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"[\r\n]+")
_PREFIX = re.compile(r"\s*\[(?:rank|default)(\d+)\]:\s?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:[,_' \u00a0\u2009\u202f]\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_AROUND = " ,;:()[]{}%'\"=|"
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 16


class PatternFollower:
    r"""Reads curves out of printed text with a regular expression.

    Every named group of the pattern that reads as a number is a metric of that name, except
    ``step`` (an integer; thousands separators allowed) and ``rank`` (which overrides the rank
    of the file). Without a ``step`` group the matches of each rank are counted from 0. Lines
    end at a newline or at a carriage return, so progress bars work; colours are removed.

    Args:
        files: ``{rank: [paths]}``, or a function that returns it, called at each look.
        pattern: The regular expression; it may match anywhere in a line.
        prefixes: Whether a line may begin with torchrun's ``[rank3]:`` or ``[default3]:``,
            which then names the rank (unless the pattern has a ``rank`` group).

    Raises:
        ValueError: If the pattern is not valid or names no metric.

    Example:
        >>> from loadwrap.curves.follow import PatternFollower
        >>> follower = PatternFollower({0: []}, r"step (?P<step>\d+).*loss (?P<loss>\S+)")
        >>> follower.poll()
        False
    """

    def __init__(
        self, files: Paths | Callable[[], Paths], pattern: str, *, prefixes: bool = False
    ) -> None:
        self._pattern = check_pattern(pattern)
        self._files = files
        self._prefixes = prefixes
        self._names = [n for n in self._pattern.groupindex if n not in ("step", "rank")]
        self._tails: dict[str, tuple[int, Tail]] = {}
        self._count: dict[int, int] = {}
        self._previous: dict[int, tuple[int, dict[str, float]]] = {}
        self.curves = Curves()
        self.lines = 0
        self.skipped = 0

    @classmethod
    def of_log(cls, path: str | os.PathLike[str], pattern: str) -> PatternFollower:
        """Follows one plain log file, such as Slurm's, into which all ranks may have printed.

        Args:
            path: The file; lines without a rank of their own count as rank 0's.
            pattern: The regular expression.

        Raises:
            ValueError: If the pattern is not valid or names no metric.
        """
        return cls({0: [path]}, pattern, prefixes=True)

    def poll(self, max_bytes: int = 4 << 20) -> bool:
        """Takes in what is new, at most ``max_bytes``; returns whether there was anything."""
        files = self._files() if callable(self._files) else self._files
        for rank, paths in files.items():
            for path in paths:
                if os.fspath(path) not in self._tails:
                    self._tails[os.fspath(path)] = rank, Tail(path, b"\n\r")
        share = max(max_bytes // max(len(self._tails), 1), 1)
        found = [self._read(rank, tail, share) for rank, tail in list(self._tails.values())]
        return any(found)

    def catch_up(self) -> None:
        """Takes in all whole lines there are by now, without a limit."""
        while self.poll():
            pass

    def finish(self) -> None:
        """Reads to the end of a run that has ended, the last line included without a newline."""
        self.catch_up()
        for rank, tail in self._tails.values():
            self._take(rank, tail.take_rest())

    def _read(self, rank: int, tail: Tail, max_bytes: int) -> bool:
        any_new = False
        while max_bytes > 0:
            lines, restarted, new = tail.read(min(_CHUNK, max_bytes))
            if restarted:
                self._start_over()
                return True
            self._take(rank, lines)
            any_new |= new
            if not new:
                break
            max_bytes -= _CHUNK
        return any_new

    def _start_over(self) -> None:
        """One file was replaced; several may feed one rank, so all are read again."""
        for rank in self.curves.ranks:
            self.curves.forget(rank)
        self._tails.clear()
        self._count.clear()
        self._previous.clear()
        self.curves.records = self.lines = self.skipped = 0

    def _take(self, file_rank: int, text: bytes) -> None:
        if not text:
            return
        columns: dict[tuple[int, str], tuple[list[int], list[float]]] = {}
        for line in _LINE_ENDS.split(text.decode("utf-8", "replace")):
            if not line:
                continue
            self.lines += 1
            record = self._record(file_rank, line[:_LONGEST_LINE])
            if record is None:
                continue
            rank, step, metrics = record
            for name, value in metrics.items():
                column = columns.setdefault((rank, name), ([], []))
                column[0].append(step)
                column[1].append(value)
            self.curves.records += 1
        for (rank, name), (steps, values) in columns.items():
            self.curves.extend(rank, name, steps, values)

    def _record(self, rank: int, line: str) -> tuple[int, int, dict[str, float]] | None:
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        if self._prefixes and (prefix := _PREFIX.match(line)):
            rank, line = int(prefix[1]), line[prefix.end() :]
        match = self._pattern.search(line)
        if match is None:
            return None
        groups = match.groupdict()
        numbers = {name: _number(groups[name]) for name in self._names}
        metrics = {name: value for name, value in numbers.items() if value is not None}
        if "rank" in groups:
            named = _integer(groups["rank"])
            rank = rank if named is None else named
        counted = "step" not in groups
        step = self._count.get(rank, 0) if counted else _integer(groups["step"])
        if not metrics or step is None or rank < 0:
            self.skipped += 1
            return None
        if counted:
            self._count[rank] = step + 1
        # A progress bar prints the same state again and again.
        elif self._previous.get(rank) == (step, metrics):
            return None
        self._previous[rank] = step, metrics
        return rank, step, metrics


def check_pattern(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern, or says in one sentence why it will find no curve.

    Raises:
        ValueError: If the pattern is not valid or names no metric.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(
            f"pattern={pattern!r} is not a valid regular expression: {error}."
        ) from error
    if not set(compiled.groupindex) - {"step", "rank"}:
        raise ValueError(
            f"pattern={pattern!r} names no metric: give the number a named group, "
            r"such as loss (?P<loss>\S+)."
        )
    return compiled


def _integer(text: str | None) -> int | None:
    try:
        number = int(_plain(text or ""))
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def _number(text: str | None) -> float | None:
    try:
        return float(_plain(text or ""))
    except ValueError:
        return None


def _plain(text: str) -> str:
    """Returns a number as Python reads it, from ``0.25,``, ``1,234.5`` or ``tensor(0.25, …``."""
    text = text.strip().removeprefix("tensor(").strip(_AROUND)
    return re.sub(r"[^\d.eE+-]", "", text) if _GROUPED.fullmatch(text) else text
