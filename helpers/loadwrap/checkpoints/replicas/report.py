"""What a comparison of the ranks found, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ranks import spell
from .difference import Difference
from .state import BUFFERS, NORMS, OPTIMIZER, PARAMETERS, Part

BY_DESIGN = {
    NORMS: "by design after a training step: each rank saw other data, and the next forward "
    "under DDP sends rank 0's",
    BUFFERS: "not a failure by default: the next forward under DDP sends rank 0's",
}
_ONE = {
    PARAMETERS: "parameter",
    OPTIMIZER: "optimizer state",
    BUFFERS: "buffer",
    NORMS: "batch norm's buffer",
}


@dataclass
class SyncReport:
    """What was compared, and what of it differs.

    Attributes:
        ranks: The ranks that were compared.
        parts: The kinds of state that were compared.
        member: Whether this rank belongs to the group that was compared.
        differences: The parts that differ; in a report that was returned, none but buffers.
    """

    ranks: tuple[int, ...]
    parts: Sequence[Part]
    member: bool = True
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.member:
            return "this rank is not in the group: nothing was compared here"
        if len(self.ranks) == 1:
            return "one rank: nothing to compare with"
        unequal = {difference.part.name: difference for difference in self.differences}
        return "\n".join(
            f"{part.name}: {_verdict(part, unequal.get(part.name), len(self.ranks))}"
            for part in self.parts
            if part.tensors or part.sharded or part.ignored or part.name in unequal
        )

    def __repr__(self) -> str:
        unequal = [difference.part.name for difference in self.differences]
        return f"SyncReport(ranks={len(self.ranks)}, differ={unequal})"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]


class ReplicasOutOfSync(RuntimeError):
    """The ranks do not hold the same model. Raised on all of them.

    Attributes:
        name: The first tensor that differs, by the name that the unwrapped model gives it.
        part: "parameters", "optimizer state", "buffers" or "batch norm's buffers".
        ranks: The ranks that differ from what most have (of two halves: from rank 0's).
        largest: How far the first tensor lies apart, None where names or shapes differ.
        report: Everything that was found; str() of it has a line for each part.
    """

    def __init__(self, report: SyncReport, first: Difference) -> None:
        self.name = first.names[0]
        self.part = first.part.name
        self.ranks = first.ranks
        self.largest = first.distance.largest if first.distance else None
        self.report = report
        super().__init__(f"{_ONE[self.part]} {self.name} {sides(first)}\n{report}")


def sides(difference: Difference) -> str:
    """Returns how the first tensor of a difference differs, and on which ranks."""
    if difference.distance is None:
        return difference.how
    return f"{difference.how}: {spell(difference.ranks)} against {spell(difference.others)}"


def _verdict(part: Part, difference: Difference | None, ranks: int) -> str:
    total = len(part.tensors)
    many = "tensors and settings" if part.name == OPTIMIZER else "tensors"
    words = []
    if difference is None:
        words.append(
            f"{_count(total, many)} equal on {ranks} ranks" if total else "none to compare"
        )
    else:
        if difference.names:
            text = f"{len(difference.names):,} of {_count(difference.total, many)} differ, first "
            text += f"{difference.names[0]}, which {sides(difference)}"
        else:
            text = f"{_count(total, many)}, not all equal"
        if part.name in BY_DESIGN:
            text += f" ({BY_DESIGN[part.name]})"
        words.append(text)
    if part.sharded:
        words.append(f"{_count(part.sharded)} sharded: they differ by design, not compared")
    if part.ignored:
        words.append(f"{_count(part.ignored)} ignored")
    return "; ".join(words)


def _count(number: int, many: str = "tensors") -> str:
    return f"{number:,} {'tensor' if number == 1 else many}"
