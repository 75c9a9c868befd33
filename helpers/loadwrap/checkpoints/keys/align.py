"""Lays the tree of a file's names over the tree of a model's, around wrappers.

A wrapper puts one node between a module and its parent. The best alignment of two trees is
therefore found node by node: the children of equal name are aligned, or one wrapper is passed
on either side. It is best when it pairs most tensors of equal name and shape; of equally good
ones, that which passes the fewest wrappers wins, so that a child that is really called
`module` stays where both sides have it.

If an alignment pairs *all* tensors of both sides, no other alignment pairs them differently:
passing a wrapper then never leaves a sibling behind, so both trees, with such nodes contracted,
are the same tree, whose names are all different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .segments import WRAPPERS, Node, Path

Score = tuple[int, int, int]
"""Tensors paired with equal shapes, tensors paired with other shapes, wrappers passed (minus)."""


@dataclass
class Alignment:
    """Which tensor of the file meets which of the model, and what was passed on the way."""

    score: Score = (0, 0, 0)
    pairs: dict[str, str] = field(default_factory=dict)
    other_shape: dict[str, str] = field(default_factory=dict)
    removed: list[tuple[Path, str]] = field(default_factory=list)
    """Wrappers of the file that the model lacks: where (a path in the file), which."""
    added: list[tuple[Path, str]] = field(default_factory=list)
    """Wrappers of the model that the file lacks: where (a path in the model), which."""
    loose: dict[str, Path] = field(default_factory=dict)
    """Tensors of the file without a partner: the path each would have in the model."""
    outside: list[str] = field(default_factory=list)
    """Tensors beside the part of the file that was aligned."""
    missing: list[str] = field(default_factory=list)
    """Tensors of the model without a partner."""


class Aligner:
    """Aligns parts of one file's tree with parts of one model's; remembers what it has seen."""

    def __init__(
        self, fits: Callable[[str, str], bool], wrappers: Collection[str] = WRAPPERS
    ) -> None:
        self._fits = fits
        self._wrappers = wrappers
        self._seen: dict[tuple[int, int], tuple[Score, tuple[str, str]]] = {}

    def score(self, file: Node, model: Node) -> Score:
        """Returns how well two nodes can be aligned."""
        return self._best(file, model)[0]

    def _best(self, file: Node, model: Node) -> tuple[Score, tuple[str, str]]:
        key = (id(file), id(model))
        found = self._seen.get(key)
        if found is not None:
            return found
        equal = unequal = passed = 0
        if file.name is not None and model.name is not None:
            if self._fits(file.name, model.name):
                equal += 1
            else:
                unequal += 1
        for segment, child in file.children.items():
            other = model.children.get(segment)
            if other is not None:
                one, two, three = self.score(child, other)
                equal, unequal, passed = equal + one, unequal + two, passed + three
        best: tuple[Score, tuple[str, str]] = ((equal, unequal, passed), ("", ""))
        for segment, child in file.children.items():
            if segment in self._wrappers and child.children:
                one, two, three = self.score(child, model)
                if (one, two, three - 1) > best[0]:
                    best = ((one, two, three - 1), ("file", segment))
        for segment, child in model.children.items():
            if segment in self._wrappers and child.children:
                one, two, three = self.score(file, child)
                if (one, two, three - 1) > best[0]:
                    best = ((one, two, three - 1), ("model", segment))
        self._seen[key] = best
        return best

    def align(self, file: Node, model: Node) -> Alignment:
        """Returns the best alignment of two nodes."""
        result = Alignment(score=self.score(file, model))
        self._follow(file, model, result, at_top=True)
        return result

    def _follow(self, file: Node, model: Node, result: Alignment, at_top: bool) -> None:
        side, segment = self._best(file, model)[1]
        if side == "file":
            result.removed.append((file.path, segment))
            for other, child in file.children.items():
                if other != segment:
                    # Beside a wrapper at the very top lies another part of the file (a counter,
                    # an average); further down it is a tensor that the model lacks.
                    for name in child.leaves():
                        if at_top:
                            result.outside.append(name)
                        else:
                            result.loose[name] = _below(name, file, model)
            self._follow(file.children[segment], model, result, at_top)
            return
        if side == "model":
            result.added.append((model.path, segment))
            for other, child in model.children.items():
                if other != segment:
                    result.missing.extend(child.leaves())
            self._follow(file, model.children[segment], result, at_top)
            return
        if file.name is not None and model.name is not None:
            fits = self._fits(file.name, model.name)
            (result.pairs if fits else result.other_shape)[file.name] = model.name
        elif file.name is not None:
            result.loose[file.name] = model.path
        elif model.name is not None:
            result.missing.append(model.name)
        for segment, child in file.children.items():
            if segment in model.children:
                self._follow(child, model.children[segment], result, at_top=False)
            else:
                for name in child.leaves():
                    result.loose[name] = _below(name, file, model)
        for segment, child in model.children.items():
            if segment not in file.children:
                result.missing.extend(child.leaves())


def _below(name: str, file: Node, model: Node) -> Path:
    return (*model.path, *name.split(".")[len(file.path) :])
