"""Finds which tensors of a part differ, on which ranks, and how far. Collective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ranks import Ranks, spell
from .distance import Distance, distance
from .state import Part


@dataclass
class Difference:
    """A part of the state that is not the same on all ranks.

    Attributes:
        part: The part, as this rank has it.
        structure: Whether the ranks do not even have the same names, dtypes and shapes.
        names: The tensors that differ, the first first.
        total: How many tensors there are, on all ranks together.
        ranks: The ranks whose first differing tensor is not the one that most ranks have.
        others: The ranks that have the one of most ranks.
        how: How the first one differs, in words.
        distance: How far the first one lies apart; None where shapes differ.
    """

    part: Part
    structure: bool
    names: list[str] = field(default_factory=list)
    total: int = 0
    ranks: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    how: str = ""
    distance: Distance | None = None


def of_content(difference: Difference, ranks: Ranks) -> None:
    """Completes a difference in values. Every rank has the same names, dtypes and shapes."""
    rows = ranks.gather_numbers(difference.part.fingerprints())
    names = list(difference.part.tensors)
    difference.total = len(names)
    columns = list(zip(*rows, strict=True))
    unequal = [index for index, column in enumerate(columns) if len(set(column)) > 1]
    if not unequal:  # changed meanwhile by another thread, or a miss of the fingerprint
        return
    first = unequal[0]
    difference.names = [names[index] for index in unequal]
    difference.ranks, difference.others = _sides(columns[first], ranks)
    difference.distance = distance([difference.part.tensors[names[first]]], ranks)
    difference.how = _how(difference.distance)


def of_structure(difference: Difference, ranks: Ranks) -> None:
    """Completes a difference in names, dtypes or shapes."""
    rows = ranks.gather(
        [
            (name, line)
            for name, line in zip(difference.part.tensors, difference.part.names(), strict=True)
        ]
    )
    kinds = [dict(row) for row in rows]
    order = list(dict.fromkeys(name for row in rows for name, _ in row))
    difference.total = len(order)
    has = {name: [kind.get(name, "") for kind in kinds] for name in order}
    unequal = [name for name, lines in has.items() if len(set(lines)) > 1]
    if unequal:
        difference.names = unequal
        lines = has[unequal[0]]
        difference.ranks, difference.others = _sides(lines, ranks)
        odd = lines[ranks.numbers.index(difference.ranks[0])]
        usual = lines[ranks.numbers.index(difference.others[0])]
        name = unequal[0]
        if not odd or not usual:
            without = difference.ranks if not odd else difference.others
            difference.how = f"is missing on {spell(without)}"
        else:
            difference.how = (
                f"is {odd.removeprefix(name).strip()} on {spell(difference.ranks)} "
                f"and {usual.removeprefix(name).strip()} on {spell(difference.others)}"
            )
        return
    orders = [tuple(kind) for kind in kinds]
    difference.ranks, difference.others = _sides(orders, ranks)
    mine = orders[ranks.numbers.index(difference.ranks[0])]
    usual_order = orders[ranks.numbers.index(difference.others[0])]
    difference.names = [a for a, b in zip(mine, usual_order, strict=True) if a != b]
    difference.how = f"comes in another place on {spell(difference.ranks)}"


def _sides(values: Sequence[object], ranks: Ranks) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ranks that differ from what most have (of two halves: what the first has)."""
    counts = Counter(values)
    usual = max(counts, key=lambda value: (counts[value], value == values[0]))
    pairs = list(zip(ranks.numbers, values, strict=True))
    return (
        tuple(rank for rank, value in pairs if value != usual),
        tuple(rank for rank, value in pairs if value == usual),
    )


def _how(found: Distance) -> str:
    if found.elements == 0:
        return "differs in its bits, not as a number (0.0 and -0.0, or two kinds of NaN)"
    values = "value" if found.total == 1 else "values"
    if found.largest != found.largest:
        size = "by a NaN that some ranks do not have"
    else:
        size = f"by up to {found.largest:.3g}" if found.total > 1 else f"by {found.largest:.3g}"
    return f"differs {size}, in {found.elements:,} of {found.total:,} {values}"
