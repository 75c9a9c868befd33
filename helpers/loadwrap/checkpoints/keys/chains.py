"""Reads the chains of wrappers and prefixes off a match, for the report and for the line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .match import Match
from .segments import WRAPPERS, Path, dotted
from .sides import Side

Passed = tuple[Path, str]


@dataclass(frozen=True)
class Chain:
    """What one side's names have and the other's lack: in front of all, and inside of some."""

    lead: Path
    inside: tuple[Passed, ...]
    common: tuple[Passed, ...]
    """Wrappers that both sides have, known from the model's classes."""

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The wrappers' segments from the outside in, those of equal depth once."""
        places = [(self.lead[:at], part) for at, part in enumerate(self.lead) if part in WRAPPERS]
        chain: list[tuple[int, str]] = []
        for path, segment in sorted(
            {*places, *self.inside, *self.common}, key=lambda one: (len(one[0]), one[1])
        ):
            if (len(path), segment) not in chain:
                chain.append((len(path), segment))
        return tuple(segment for _, segment in chain)


def chains(match: Match, model: Side) -> tuple[Chain, Chain]:
    """Returns the file's chain and the model's."""
    alignment = match.alignment
    added = set(alignment.added)
    common = tuple(one for one in model.wrappers if one not in added)
    known = tuple(one for one in model.wrappers if one in added)
    lead, inside = _lead(match.prefix, alignment.removed)
    lead_added, inside_added = _lead(match.added_prefix, alignment.added)
    return Chain(lead, inside, common), Chain(lead_added, inside_added, common + known)


def _lead(prefix: Path, passed: Sequence[Passed]) -> tuple[Path, tuple[Passed, ...]]:
    lead: Path = prefix
    rest = list(passed)
    while True:
        here = next((one for one in rest if one[0] == lead), None)
        if here is None:
            return lead, tuple(rest)
        rest.remove(here)
        lead = (*lead, here[1])


def count_below(names: Iterable[str], passed: Passed) -> list[str]:
    """Returns the names that go through a wrapper."""
    start = dotted((*passed[0], passed[1]))
    return [name for name in names if name.startswith(start)]
