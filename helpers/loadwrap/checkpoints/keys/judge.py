"""Decides, for one entry of a checkpoint, whether and how its tensors fit a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from .adapter import into_adapted, is_adapter
from .align import Alignment
from .container import Candidate
from .match import Match, match
from .rename import Renaming
from .segments import Path, dotted, without_wrappers
from .sides import Side

_MOST_COMPARED = 8
_FEW = 4
_SAME = "the same tensor as "


@dataclass
class Judgement:
    """One entry, its best match, and what is left over on either side."""

    candidate: Candidate
    match: Match
    before: int
    unexpected: list[str] = field(default_factory=list)
    other_parts: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Tensors of the file that need not be loaded, and why."""
    lacking: list[str] = field(default_factory=list)
    adapter: bool = False
    verdict: str = ""

    @property
    def cured(self) -> bool:
        """Every tensor of the model is filled, and nothing unexplained is left in the file."""
        return self.match.total and not self.unexpected and not self.match.rivals

    @property
    def collisions(self) -> dict[str, str]:
        """Tensors left over that, without wrappers, have the name of one that was paired."""
        taken = {_bare(name): name for name in self.match.alignment.pairs}
        return {name: taken[_bare(name)] for name in self.unexpected if _bare(name) in taken}

    @property
    def order(self) -> tuple[bool, int, int, int, int]:
        """Sorts the best entry of a file first."""
        rank = self.candidate.rank
        return (not self.cured, -self.match.matched, rank, self.match.cost, len(self.unexpected))

    def renaming(self) -> Renaming:
        """Returns what has to be renamed."""
        return Renaming(
            dict(self.match.alignment.pairs),
            dict(self.sources()),
            (*self.left_out, *self.candidate.side.plain),
            tuple(self.other_parts),
        )

    def sources(self) -> dict[str, str]:
        """Returns the tied names of the model, and which name of the file fills each."""
        back = {target: name for name, target in self.match.alignment.pairs.items()}
        return {name: back[partner] for name, partner in self.match.tied.items()}


def judge(candidate: Candidate, model: Side) -> Judgement:
    """Judges one entry."""
    file = candidate.side
    before = sum(
        name in model.entries and _equal(entry.shape, model.entries[name].shape)
        for name, entry in file.entries.items()
    )
    if is_adapter(file.entries):
        return _adapter(candidate, model, before)
    found = match(file, model)
    result = Judgement(candidate, found, before)
    alignment = found.alignment
    for name in (*alignment.loose, *alignment.outside):
        why = _needless(name, result, model)
        if why:
            result.left_out[name] = why
        elif name in alignment.loose:
            result.unexpected.append(name)
        else:
            result.other_parts.append(name)
    if result.unexpected:
        # What is left over is not only doubles: then the doubles are part of the story too.
        twins = [name for name, why in result.left_out.items() if why.startswith(_SAME)]
        for name in twins:
            del result.left_out[name]
        left = {*result.unexpected, *twins}
        result.unexpected = [name for name in alignment.loose if name in left]
    settled = {*found.tied, *found.counters, *alignment.other_shape.values()}
    result.lacking = [name for name in alignment.missing if name not in settled]
    result.verdict = _verdict(result, model)
    return result


def _adapter(candidate: Candidate, model: Side, before: int) -> Judgement:
    pairs = into_adapted(candidate.side, model)
    result = Judgement(candidate, Match(Alignment(pairs=pairs)), before, adapter=True)
    result.verdict = "adapter"
    if not pairs:
        result.unexpected = list(candidate.side.entries)
    filled = set(pairs.values())
    result.lacking = [name for name in model.entries if name not in filled]
    return result


def _verdict(result: Judgement, model: Side) -> str:
    found, alignment = result.match, result.match.alignment
    if result.cured:
        if found.rules:
            return "renamed"
        if result.other_parts:
            return "subtree"
        if found.prefix or found.added_prefix:
            return "prefix"
        if alignment.removed or alignment.added:
            return "wrapper"
        if found.tied:
            return "tied"
        return "leftovers" if result.left_out or result.candidate.side.plain else "fits"
    if found.rivals:
        return "ambiguous"
    if not found.matched:
        return "shapes" if alignment.other_shape else "nothing"
    if alignment.other_shape and not result.lacking and not result.unexpected:
        return "shapes"
    if found.total:
        return "extra"
    if result.lacking and not result.unexpected and not alignment.other_shape:
        if all(model.entries[name].buffer for name in result.lacking):
            return "buffers"
    return "partial"


def _needless(name: str, result: Judgement, model: Side) -> str:
    """Says why a tensor of the file need not be loaded, or nothing."""
    file, alignment = result.candidate.side, result.match.alignment
    last = name.rpartition(".")[2]
    if last == "n_averaged":
        return "the counter of AveragedModel, not a weight"
    inside = dotted(alignment.loose.get(name, ()))[:-1] or name
    if inside in model.unsaved:
        return "a buffer that the model makes itself and does not save"
    twin = _twin(name, file, alignment) if name in alignment.loose else ""
    return f"{_SAME}{twin}" if twin else ""


def _twin(name: str, file: Side, alignment: Alignment) -> str:
    entry = file.entries[name]
    if not entry.shape or len(entry.shape) < 2:
        return ""
    compared = 0
    for other in alignment.pairs:
        twin = file.entries[other]
        if twin.shape != entry.shape or twin.dtype != entry.dtype:
            continue
        if entry.identity is not None and entry.identity == twin.identity:
            return other
        if len(alignment.loose) > _FEW:
            continue  # numbers are read for a few tensors only; memory they share is seen anyway
        compared += 1
        # Two matrices that are still constant say nothing about being tied.
        if compared <= _MOST_COMPARED and file.same(name, other) and not _constant(entry.value):
            return other
    return ""


def _constant(value: object) -> bool:
    return isinstance(value, torch.Tensor) and bool((value == value.flatten()[0]).all())


def _bare(name: str) -> Path:
    return without_wrappers(tuple(name.split(".")))


def _equal(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    return one is None or other is None or one == other
