"""Blocks that are called differently on the two sides: one rule for a whole block, or nothing.

A rule says: below this path, these segments become those. It is read off one pair of names that
end alike, and counts only as far as it meets names and shapes on the other side. The rule that
moves most tensors is taken first. If another one moves as many of the same tensors elsewhere,
names and shapes cannot tell which is right, and no rule at all is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .segments import Path

_ANY = "#"
_MOST_RULES = 32
_SAMPLE = 24
_FEW = 200
_MOST_PAIRS = 6_000
_MOST_GUESSES = 200


@dataclass
class Rule:
    """Below `where`, the segments `old` become `new`; `#` stands for any number."""

    where: Path
    old: Path
    new: Path
    pairs: dict[str, str] = field(default_factory=dict)
    """What it moves: names of the file to names of the model."""

    def apply(self, path: Path) -> Path | None:
        """Returns where it moves a path, or None if it says nothing about it."""
        start, end = len(self.where), len(self.where) + len(self.old)
        if len(path) <= end or not _like(path[:start], self.where):
            return None
        if not _like(path[start:end], self.old):
            return None
        return (*path[:start], *self.new, *path[end:])

    def __str__(self) -> str:
        def spell(middle: Path) -> str:
            return ".".join((*self.where, *middle, "*"))

        return f"{spell(self.old)} -> {spell(self.new)}"


def rename_blocks(
    loose: Mapping[str, Path],
    missing: Sequence[str],
    fits: Callable[[str, str], bool],
    shapes_known: bool,
) -> tuple[list[Rule] | None, str]:
    """Finds the rules that take every loose tensor to a missing one, each to its own.

    Args:
        loose: The tensors of the file without a partner, and the path each would have.
        missing: The tensors of the model without a partner.
        fits: Whether a tensor of the file has the shape of one of the model.
        shapes_known: Whether shapes speak; without them no block is given another word as name.

    Returns:
        The rules, or None; and if there were several ways, a sentence that says so.
    """
    if len(loose) != len(missing):
        return None, ""
    left = dict(loose)
    open_names = {tuple(name.split(".")): name for name in missing}
    rules: list[Rule] = []
    while left:
        ranked = _ranked(left, open_names, fits)
        if not ranked or len(rules) == _MOST_RULES:
            return None, ""
        most = len(ranked[0].pairs)
        equal = [rule for rule in ranked if len(rule.pairs) == most]
        best = min(
            equal,
            key=lambda rule: (
                not _sound(rule.old, rule.new, shapes_known),
                len(rule.old) + len(rule.new),
                len(rule.where),
            ),
        )
        for other in equal:
            clash = _clash(best, other)
            if clash:
                return None, clash
        if not _sound(best.old, best.new, shapes_known):
            name, target = next(iter(best.pairs.items()))
            return None, f"{name} could be {target}, but nothing in the names says so"
        if not all(_apart(best, other) for other in rules):
            return None, ""
        rules.append(best)
        for name, target in best.pairs.items():
            del left[name]
            del open_names[tuple(target.split("."))]
    return rules, ""


def _ranked(
    left: dict[str, Path],
    open_names: dict[Path, str],
    fits: Callable[[str, str], bool],
) -> list[Rule]:
    votes = Counter(_guesses(left, open_names, fits))
    rules = [Rule(where, old, new) for (where, old, new), _ in votes.most_common(_MOST_GUESSES)]
    for rule in _promising(rules, left, open_names):
        taken: set[str] = set()
        for name, path in left.items():
            moved = rule.apply(path)
            target = open_names.get(moved) if moved is not None else None
            if target is None or not fits(name, target):
                continue
            if target in taken:
                rule.pairs.clear()  # two tensors onto one: not a rule
                break
            taken.add(target)
            rule.pairs[name] = target
    return sorted((rule for rule in rules if rule.pairs), key=lambda rule: -len(rule.pairs))


def _promising(rules: list[Rule], left: dict[str, Path], open_names: dict[Path, str]) -> list[Rule]:
    """Spares the rules that do little for some of the names the work of trying all names."""
    if len(left) <= _FEW:
        return rules
    some = list(left.values())[:: len(left) // _FEW]
    moved = [sum(rule.apply(path) in open_names for path in some) for rule in rules]
    return [rule for rule, count in zip(rules, moved, strict=True) if 2 * count >= max(moved)]


def _guesses(
    left: dict[str, Path], open_names: dict[Path, str], fits: Callable[[str, str], bool]
) -> Iterator[tuple[Path, Path, Path]]:
    names = list(left)
    sample = names[:: max(1, len(names) // _SAMPLE)]
    ends: dict[str, list[Path]] = {}
    for path in open_names:
        ends.setdefault(path[-1], []).append(path)
    tried = 0
    for name in sample:
        path = left[name]
        for other in ends.get(path[-1], ()):
            tried += 1
            if tried > _MOST_PAIRS:
                return
            if fits(name, open_names[other]):
                yield from _readings(path, other)


def _readings(path: Path, other: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Yields the rules that one pair of names allows, the more general ones first."""
    start = 0
    while start < min(len(path), len(other)) - 1 and path[start] == other[start]:
        start += 1
    for where in range(start, -1, -1):
        end = 0
        shortest = min(len(path), len(other)) - where
        while end < shortest and path[-1 - end] == other[-1 - end]:
            end += 1
        old, new = path[where : len(path) - end], other[where : len(other) - end]
        if old == new:
            continue
        # Only where the two really part; a longer common tail says nothing new.
        general = tuple(_ANY if segment.isdigit() else segment for segment in path[:where])
        if not new and old and all(segment.isdigit() for segment in old):
            yield general, (_ANY,) * len(old), new
        yield general, old, new
        yield path[:where], old, new
        if old and new:
            return


def _sound(old: Path, new: Path, shapes_known: bool) -> bool:
    if not old or not new:
        return True
    # `layers.0` to `layers.1`, `fc1` to `fc2`: the same words with other numbers would put
    # equal blocks in another order, which neither names nor shapes can justify.
    same_words = _only(old, digits=False) == _only(new, digits=False)
    same_numbers = _only(old, digits=True) == _only(new, digits=True)
    return same_numbers if same_words else shapes_known


def _only(path: Path, digits: bool) -> str:
    return "".join(one for one in "".join(path) if one.isdigit() == digits)


def _like(path: Path, pattern: Path) -> bool:
    return all(
        one == two or (two == _ANY and one.isdigit())
        for one, two in zip(path, pattern, strict=True)
    )


def _apart(one: Rule, other: Rule) -> bool:
    """Says whether two rules move different blocks to different places.

    Only then does each stand for itself: rules that reach into each other's blocks could be put
    together in more than one way.
    """
    if one.where == other.where and not one.old and not other.old:
        # Blocks with chunk numbers put in: told apart by the numbers of the blocks.
        return (*one.new, *other.new) == tuple(filter(str.isdigit, (*one.new, *other.new)))
    return not (
        _nested((*one.where, *one.old), (*other.where, *other.old))
        or _nested((*one.where, *one.new), (*other.where, *other.new))
    )


def _nested(one: Path, other: Path) -> bool:
    return all(
        first == second or (_ANY in (first, second) and (first + second).strip(_ANY).isdigit())
        for first, second in zip(one, other, strict=False)
    )


def _clash(one: Rule, other: Rule) -> str:
    back = {target: name for name, target in one.pairs.items()}
    for name, target in other.pairs.items():
        mine = one.pairs.get(name)
        if mine is not None and mine != target:
            return f"{name} could be {mine} or {target}"
        if target in back and back[target] != name:
            return f"{target} could be {back[target]} or {name}"
    return ""
