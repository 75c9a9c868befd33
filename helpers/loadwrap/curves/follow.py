"""Follows what the ranks log, as it is written."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import folder
from .pattern import PatternFollower
from .store import Curves
from .tail import Tail

__all__ = ["Curves", "MetricsFollower", "PatternFollower"]

_CHUNK = 1 << 18


class MetricsFollower:
    """Reads the metrics files of a run folder incrementally.

    A record counts once its line is complete. Lines that are no records are skipped and
    counted in :attr:`skipped`; files of new ranks are found at each look; a file that was
    replaced is read from its start, and what the old one held is forgotten.

    Args:
        run: The run folder; it need not exist yet.

    Example:
        >>> from loadwrap.curves.follow import MetricsFollower
        >>> follower = MetricsFollower("runs/none-yet")
        >>> follower.poll()
        False
    """

    def __init__(self, run: str | os.PathLike[str]) -> None:
        self.curves = Curves()
        self.skipped = 0
        self._folder = os.path.join(run, folder.METRICS)
        self._tails: dict[int, Tail] = {}

    def poll(self, max_bytes: int = 4 << 20) -> bool:
        """Takes in what is new.

        Args:
            max_bytes: The most bytes to read in this call, shared among the ranks.

        Returns:
            Whether there was anything new (and so, perhaps, more).
        """
        for rank, path in folder.rank_files(self._folder).items():
            if rank not in self._tails:
                self._tails[rank] = Tail(path)
        share = max(max_bytes // max(len(self._tails), 1), 1)
        found = [self._read(rank, share) for rank in sorted(self._tails)]
        return any(found)

    def catch_up(self) -> None:
        """Takes in all whole lines there are by now, without a limit."""
        while self.poll():
            pass

    def finish(self) -> None:
        """Reads to the end of a run that has ended.

        A last line without its newline is a record only if it is a whole JSON object: that of
        a rank killed between the two. Anything less waits, as before.
        """
        self.catch_up()
        for rank, tail in self._tails.items():
            rest = tail.rest().strip()
            if rest.startswith(b"{") and rest.endswith(b"}") and _parse(rest) is not None:
                self._take(rank, [tail.take_rest()])

    def _read(self, rank: int, max_bytes: int) -> bool:
        tail, any_new = self._tails[rank], False
        too_long = tail.too_long
        while max_bytes > 0:
            lines, restarted, new = tail.read(min(_CHUNK, max_bytes))
            if restarted:
                self.curves.forget(rank)
            if lines:
                self._take(rank, lines.split(b"\n"))
            any_new |= new or restarted
            if not new:
                break
            max_bytes -= _CHUNK
        self.skipped += tail.too_long - too_long
        return any_new

    def _take(self, rank: int, lines: list[bytes]) -> None:
        lines = [line for line in lines if line and not line.isspace()]
        if not lines:
            return
        records = _parse_block(lines)
        if records is None:
            parsed = [_parse(line) for line in lines]
            records = [record for record in parsed if record is not None]
            self.skipped += len(lines) - len(records)
        columns: dict[str, tuple[list[int], list[float]]] = {}
        for record in records:
            step = record.pop("step", None)
            if type(step) is not int or not -(2**63) <= step < 2**63:
                self._take_header(rank, record)
                continue
            for name, value in record.items():
                if type(value) is not float:
                    value = _number(value)
                    if value is None:
                        continue
                if name not in columns:
                    columns[name] = [], []
                column = columns[name]
                column[0].append(step)
                column[1].append(value)
            self.curves.records += 1
        for name, (steps, values) in columns.items():
            self.curves.extend(rank, name, steps, values)

    def _take_header(self, rank: int, record: dict[str, Any]) -> None:
        header = record.get("header")
        if isinstance(header, dict):
            self.curves.headers[rank] = header
        else:
            self.skipped += 1


def _parse_block(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Parses many lines at once, five times as fast; None if any is not an object."""
    try:
        records = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        return None
    # Two broken lines can make a whole one together: then there are fewer objects than lines.
    if len(records) != len(lines) or not all(type(record) is dict for record in records):
        return None
    return list(records)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    return None
