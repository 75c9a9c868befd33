"""The verdicts of an audit as a short table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .findings import (
    BUFFERS,
    BY_DESIGN,
    CHANGED,
    FAULT,
    FILE,
    LOOK,
    NOT_CHECKED,
    NOT_RECORDED,
    OK,
    SPREAD,
    Finding,
)

_UNKNOWN = (NOT_RECORDED, NOT_CHECKED)
_KNOWN = (OK, LOOK, CHANGED, BY_DESIGN)
# These can be right without a thing of the file having been compared.
_BESIDE = (SPREAD, BUFFERS, FILE)


@dataclass(frozen=True)
class AuditReport:
    """What an audit found. Prints as a table with a verdict a line and the first fault below.

    Attributes:
        rows: ``(check, verdict, words)``, in the order in which to look.
        first_fault: The family of the first fault, such as ``"F07 learning rate"``, or None.
        codes: The family of each check that found a fault.
        notes: What else stood out.
        title: What was audited.
    """

    rows: tuple[tuple[str, str, str], ...]
    first_fault: str | None = None
    codes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    title: str = "audit"

    def verdict(self, check: str) -> str:
        """Returns the verdict of one check.

        Raises:
            KeyError: There is no such check.
        """
        return self._row(check)[1]

    def words(self, check: str) -> str:
        """Returns what was found by one check.

        Raises:
            KeyError: There is no such check.
        """
        return self._row(check)[2]

    def _row(self, check: str) -> tuple[str, str, str]:
        for row in self.rows:
            if row[0] == check:
                return row
        raise KeyError(check)

    def __str__(self) -> str:
        shown = [
            (check, f"FAULT {self.codes[check].partition(' ')[0]}" if verdict == FAULT else verdict)
            for check, verdict, _ in self.rows
        ]
        left = max((len(check) for check, _ in shown), default=0)
        middle = max((len(verdict) for _, verdict in shown), default=0)
        lines = [self.title]
        for (check, verdict), (_, _, words) in zip(shown, self.rows, strict=True):
            lines.append(f"  {check:<{left}}  {verdict:<{middle}}  {words}")
        lines += [f"  note: {note}" for note in self.notes]
        if self.first_fault is None:
            unsure = [check for check, verdict, _ in self.rows if verdict in _UNKNOWN]
            which = f"not recorded, so not known: {', '.join(unsure)}" if unsure else ""
            if self._nothing:
                which = which or "no object of the file's was given"
                lines.append(f"nothing could be checked: {which}")
            else:
                lines.append("no fault found" + (f"; {which}" if which else ""))
        else:
            check, words = next((row[0], row[2]) for row in self.rows if row[1] == FAULT)
            lines.append(f"first fault: {self.first_fault}, in {check}: {words}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        otherwise = "nothing could be checked" if self._nothing else "no fault found"
        return f"<AuditReport: {self.first_fault or otherwise}>"

    @property
    def _nothing(self) -> bool:
        """Whether no part of the file could be compared with a live object."""
        return not any(
            verdict in (FAULT, *_KNOWN) and check not in _BESIDE for check, verdict, _ in self.rows
        )


def report_of(rows: Mapping[str, Finding], title: str, notes: tuple[str, ...]) -> AuditReport:
    """Makes the report of the rows."""
    bad = {check: row.code for check, row in rows.items() if row.bad}
    return AuditReport(
        tuple((check, row.verdict, row.words) for check, row in rows.items()),
        next(iter(bad.values()), None),
        bad,
        notes,
        title,
    )
