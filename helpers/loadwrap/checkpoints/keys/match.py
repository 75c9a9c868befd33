"""Finds the part of a file, or of a model, at which the two trees of names meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .align import Aligner, Alignment
from .blocks import Rule, rename_blocks
from .segments import Node, Path, dotted, tree, without_wrappers
from .sides import Side

# Of two copies of one network in a file, the one that is trained comes before its slow copy.
SECOND = {"encoder_k", "target_encoder", "momentum_encoder", "ema", "model_ema", "teacher"}

_MOST_PARTS = 64
# Another reading of the names contradicts a rename unless it needs that many changes more.
_FAR_FETCHED = 4


@dataclass
class Match:
    """The best way found to lay a file over a model."""

    alignment: Alignment
    prefix: Path = ()
    """Removed from the front of the file's names."""
    added_prefix: Path = ()
    """Put in front of the file's names."""
    rules: list[Rule] = field(default_factory=list)
    rivals: list[str] = field(default_factory=list)
    """If several parts of the file would fill the model, their prefixes: an ambiguity."""
    copies: list[str] = field(default_factory=list)
    """Other prefixes that fit as well, but are known to be the slow copy of this one."""
    unclear: str = ""
    """Why blocks with other names could not be told apart."""
    tied: dict[str, str] = field(default_factory=dict)
    """Missing names of the model that are the same memory as one that is paired."""
    counters: list[str] = field(default_factory=list)
    """Missing counters of batch norms, which torch fills itself for this file."""
    total: bool = False
    """Every tensor of the model has its partner, or is tied to one that has."""

    @property
    def cost(self) -> int:
        """How much was changed: segments removed, added or renamed."""
        changed = len(self.prefix) + len(self.added_prefix) + 2 * len(self.rules)
        return changed - self.alignment.score[2]

    @property
    def matched(self) -> int:
        """How many tensors were paired with equal shapes."""
        return len(self.alignment.pairs)


def match(file: Side, model: Side) -> Match:
    """Finds the best match of a file's names to a model's.

    Considered are: the names as they are, each prefix removed or added that makes some names
    meet, wrappers passed anywhere on either side, and last, blocks that are called differently.
    """

    def fits(name: str, other: str) -> bool:
        one, two = file.entries[name].shape, model.entries[other].shape
        return one is None or two is None or one == two

    files, models = tree(file.entries), tree(model.entries)
    aligner = Aligner(fits)
    ties = _ties(model)
    counters = {
        name
        for name in model.entries
        if file.counts_itself and name.rpartition(".")[2] == "num_batches_tracked"
    }
    whole = _judged(Match(aligner.align(files, models)), model, ties, counters)
    if whole.total and len(whole.alignment.pairs) == len(file.entries):
        return whole  # nothing is left over: no other way can pair the names differently
    found = [whole]
    for prefix in _prefixes(file.entries, model.entries):
        node = files.at(prefix)
        result = Match(aligner.align(node, models), prefix=prefix)
        result.alignment.outside.extend(_beside(files, node))
        found.append(_judged(result, model, ties, counters))
    for prefix in _prefixes(model.entries, file.entries):
        node = models.at(prefix)
        result = Match(aligner.align(files, node), added_prefix=prefix)
        result.alignment.missing.extend(_beside(models, node))
        found.append(_judged(result, model, ties, counters))
    found.sort(key=_order)
    best = found[0]
    if not best.total:
        # A renamed child may be called like a wrapper: read the names without passing any, too.
        plain = _judged(Match(Aligner(fits, ()).align(files, models)), model, ties, counters)
        return _with_blocks([*found[:4], plain], fits, file, model, ties, counters) or best
    if not best.cost:
        return best
    best.rivals, best.copies = _rivals(best, found)
    return best


def _order(one: Match) -> tuple[bool, int, int, bool, int]:
    # Of two copies of one network the one that is trained comes first.
    return (
        not one.total,
        -one.matched,
        -one.alignment.score[1],
        _slow(one.prefix),
        one.cost,
    )


def _prefixes(names: Iterable[str], others: Iterable[str]) -> list[Path]:
    """Returns the paths in the first names below which some of the others are found."""
    targets = {without_wrappers(tuple(name.split("."))) for name in others}
    votes: Counter[Path] = Counter()
    for name in names:
        path = tuple(name.split("."))
        for start in range(1, len(path)):
            if without_wrappers(path[start:]) in targets:
                votes[path[:start]] += 1
    return [prefix for prefix, _ in votes.most_common(_MOST_PARTS)]


def _beside(root: Node, node: Node) -> list[str]:
    if node is root:
        return []
    start = dotted(node.path)
    return [name for name in root.leaves() if not name.startswith(start)]


def _ties(model: Side) -> dict[str, tuple[str, ...]]:
    return {name: group for group in model.aliases() for name in group}


def _judged(
    result: Match, model: Side, ties: dict[str, tuple[str, ...]], counters: set[str]
) -> Match:
    filled = set(result.alignment.pairs.values())
    lacking = [name for name in model.entries if name not in filled]
    result.tied = {
        name: partner
        for name in lacking
        for partner in [next((one for one in ties.get(name, ()) if one in filled), "")]
        if partner
    }
    there = set(result.alignment.other_shape.values())
    result.counters = [name for name in lacking if name in counters and name not in there]
    result.total = bool(filled) and len(result.tied) + len(result.counters) == len(lacking)
    return result


def _slow(prefix: Path) -> bool:
    return any(segment in SECOND for segment in prefix)


def _rivals(best: Match, found: list[Match]) -> tuple[list[str], list[str]]:
    rivals: list[str] = []
    copies: list[str] = []
    for other in found:
        if other is best or not other.total or other.alignment.pairs == best.alignment.pairs:
            continue
        known = _slow(other.prefix) and not _slow(best.prefix)
        (copies if known else rivals).append(_shown(other))
    return ([_shown(best), *rivals] if rivals else []), copies


def _shown(match: Match) -> str:
    return f"`{dotted(match.prefix)}`" if match.prefix else "the names without a prefix"


def _with_blocks(
    found: list[Match],
    fits: Callable[[str, str], bool],
    file: Side,
    model: Side,
    ties: dict[str, tuple[str, ...]],
    counters: set[str],
) -> Match | None:
    """Returns the match with its blocks renamed; None if there is no one way to do it.

    The last of those found reads the names as they are.
    """
    exact = found[-1].alignment.pairs
    renamed: list[Match] = []
    for one in found:
        old = one.alignment
        if not old.loose or not old.missing or old.other_shape:
            continue
        lacking = [name for name in old.missing if name not in one.tied]
        rules, unclear = rename_blocks(old.loose, lacking, fits, _known(file, model, old, lacking))
        if unclear:
            found[0].unclear = unclear
            return None
        if rules is None:
            continue
        moved = {name: other for rule in rules for name, other in rule.pairs.items()}
        order = {**old.pairs, **moved}
        new = Alignment(
            score=(len(order), 0, old.score[2]),
            pairs={name: order[name] for name in file.entries if name in order},
            removed=old.removed,
            added=old.added,
            outside=old.outside,
            missing=[name for name in old.missing if name in one.tied],
        )
        match = Match(new, prefix=one.prefix, added_prefix=one.added_prefix, rules=rules)
        renamed.append(_judged(match, model, ties, counters))
    renamed = sorted((one for one in renamed if one.total), key=lambda one: one.cost)
    # A tensor that has its right name already keeps it; other readings only raise doubts.
    kept = [one for one in renamed if exact.items() <= one.alignment.pairs.items()]
    if not kept:
        return None
    origin = {target: name for name, target in kept[0].alignment.pairs.items()}
    for other in renamed:
        if other.cost >= kept[0].cost + _FAR_FETCHED:
            break
        for name, target in other.alignment.pairs.items():
            if origin[target] != name:
                found[0].unclear = f"{target} could be {origin[target]} or {name}"
                return None
    return kept[0]


def _known(file: Side, model: Side, alignment: Alignment, lacking: list[str]) -> bool:
    """Says whether the shapes of all loose tensors are known on both sides."""
    return all(file.entries[name].shape is not None for name in alignment.loose) and all(
        model.entries[name].shape is not None for name in lacking
    )
