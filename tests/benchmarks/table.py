"""One row for each measure, and the table of them."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Row:
    """What was measured, what it must reach, what it was, and whether that is enough.

    ``busy``: other processes were using the machine, so that it says little.
    """

    measure: str
    reach: str
    measured: str
    ok: bool
    busy: bool = False

    @property
    def verdict(self) -> str:
        return ("ok" if self.ok else "NOT") + (" (busy)" if self.busy else "")


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Returns the median ratio of neighbours: what slows the machine for a while slows both."""
    return median(our / their for our, their in zip(ours, theirs, strict=True))


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def lay_out(rows: list[Row]) -> str:
    """Returns the rows as a table of plain text."""
    cells = [("measure", "reach", "measured", "")]
    cells += [(row.measure, row.reach, row.measured, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    cells.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
