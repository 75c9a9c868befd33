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
    in_file = _in_file(common, match)
    known = tuple(one for one in model.wrappers if one in added)
    lead, inside = _lead(match.prefix, alignment.removed)
    lead_added, inside_added = _lead(match.added_prefix, alignment.added)
    return Chain(lead, inside, in_file), Chain(lead_added, inside_added, common + known)


def _in_file(common: Iterable[Passed], match: Match) -> tuple[Passed, ...]:
    """Returns where wrappers that both sides have stand in the file's names."""
    found = {}
    wanted = {(*path, segment) for path, segment in common}
    for name, target in match.alignment.pairs.items():
        path, other = name.split("."), target.split(".")
        for at in range(1, len(other)):
            place = tuple(other[:at])
            if place in wanted and place not in found:
                # What follows the wrapper holds the same wrapped names on both sides.
                here = _meeting(path, other, at, match)
                if here is not None:
                    found[place] = (tuple(path[: here - 1]), place[-1])
        if len(found) == len(wanted):
            break
    return tuple(found.values())


def _meeting(path: list[str], other: list[str], at: int, match: Match) -> int | None:
    """Returns how far the file's name has come when the model's has come so far."""
    removed, added = set(match.alignment.removed), set(match.alignment.added)
    one, two = len(match.prefix), len(match.added_prefix)
    while one < len(path) and two < len(other):
        if (tuple(path[:one]), path[one]) in removed:
            one += 1
        elif (tuple(other[:two]), other[two]) in added:
            two += 1
        else:
            one, two = one + 1, two + 1
            if two == at:
                return one
    return None


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
