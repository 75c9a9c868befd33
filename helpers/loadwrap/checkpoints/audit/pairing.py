"""Lays the weights of a file over a live model: which saved tensor belongs to which live one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..keys.container import Candidate, candidates
from ..keys.judge import Judgement, judge
from ..keys.sides import read_model
from .bits import equal
from .saved import AVERAGE


@dataclass
class Pairing:
    """Saved tensors by the names of the live model."""

    container: str = ""
    saved: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Live name to the name in the file."""
    wrappers: tuple[str, ...] = ()
    """Segments that one side has and the other lacks."""
    prefix: str = ""
    other_shape: dict[str, str] = field(default_factory=dict)
    """Live name to the name in the file of a tensor with another shape."""
    tied: dict[str, str] = field(default_factory=dict)
    """Live names that the file lacks, tied to a name that it has."""
    order: list[str] = field(default_factory=list)
    """The live names in the order of the file."""

    @property
    def renamed(self) -> set[str]:
        """Live names under which the file has nothing, though it holds the tensor."""
        return {live for live, name in self.names.items() if live != name}


def pair(tree: object, live: Mapping[str, Tensor]) -> Pairing | None:
    """Finds the weights in a checkpoint; None if it holds no tensor by name."""
    model = read_model(dict(live))
    judged = [judge(candidate, model) for candidate in candidates(tree) if candidate.side.entries]
    if not judged:
        return None
    most = max(judgement.match.matched for judgement in judged)
    fit = [judgement for judgement in judged if 2 * judgement.match.matched >= most]
    best = min(map(_distance, fit))
    # Two networks of one kind in one file (a CycleGAN's): the one that the model holds is meant.
    twins = [_paired(tree, one, live) for one in fit if _distance(one) == best]
    if len(twins) > 1:
        return max(twins, key=lambda twin: _agreement(twin, live))
    return twins[0]


def pair_entry(tree: Mapping[str, Any], live: Mapping[str, Tensor]) -> Pairing | None:
    """The same for an entry that is known to hold weights, such as the average's."""
    return pair(tree, live)


def _distance(judgement: Judgement) -> tuple[Any, ...]:
    """Sorts the weights that are trained before their averages, then the better fit first."""
    words = judgement.candidate.name.lower()
    return (judgement.candidate.rank >= AVERAGE, "teacher" in words, judgement.order)


def _agreement(pairing: Pairing, live: Mapping[str, Tensor]) -> int:
    return sum(equal(live[name], saved) for name, saved in pairing.saved.items())


def _paired(tree: object, found: Judgement, live: Mapping[str, Tensor]) -> Pairing:
    candidate: Candidate = found.candidate
    weights = candidate.get(tree)
    alignment = found.match.alignment
    names = {target: name for name, target in alignment.pairs.items()}
    saved = {
        target: value
        for target, name in names.items()
        if isinstance(value := weights[name], Tensor)
    }
    passed = [segment for _, segment in (*alignment.removed, *alignment.added)]
    prefix = found.match.prefix or found.match.added_prefix
    return Pairing(
        container=candidate.name,
        saved=saved,
        names={target: names[target] for target in saved},
        wrappers=tuple(passed),
        prefix=".".join(prefix),
        other_shape={target: name for name, target in alignment.other_shape.items()},
        tied=dict(found.match.tied),
        order=[alignment.pairs[name] for name in weights if name in alignment.pairs],
    )
