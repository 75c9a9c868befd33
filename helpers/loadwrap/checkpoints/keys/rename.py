"""Carries a rename out: all of it or, with the reason, nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .segments import WRAPPERS


class KeyRenameError(ValueError):
    """A rename that would lose, double or invent a tensor; the message says which."""


@dataclass(frozen=True)
class Renaming:
    """Which name of the file becomes which of the model."""

    pairs: dict[str, str]
    aliases: dict[str, str] = field(default_factory=dict)
    """Tied names of the model to the name of the file that fills them too."""
    left_out: tuple[str, ...] = ()
    """Names of the file that are no weights of their own: counters, unsaved buffers, doubles."""
    other_parts: tuple[str, ...] = ()
    """Names of the file that belong to other networks than the model."""

    def __call__(self, weights: Mapping[str, Any], subset: bool = False) -> OrderedDict[str, Any]:
        """Returns the renamed weights; keeps their order and their `_metadata`."""
        if self.other_parts and not subset:
            raise KeyRenameError(
                f"the rename leaves {tensors(self.other_parts)} of the file behind "
                f"({some(self.other_parts)}): if you want only the part that the model has, say "
                f"so with rename(…, subset=True)."
            )
        known = {*self.pairs, *self.left_out, *self.other_parts}
        strange = [name for name in weights if name not in known]
        if strange:
            raise KeyRenameError(
                f"these are not the weights that were explained: {some(strange)} was not there."
            )
        lacking = [name for name in self.pairs if name not in weights]
        if lacking:
            raise KeyRenameError(
                f"these are not the weights that were explained: {some(lacking)} is gone."
            )
        renamed: OrderedDict[str, Any] = OrderedDict()
        origin: dict[str, str] = {}
        for name, value in weights.items():
            target = self.pairs.get(name)
            if target is None:
                continue
            if target in renamed:
                raise KeyRenameError(
                    f"the rename maps two tensors onto one: {origin[target]} and {name} would "
                    f"both become {target}."
                )
            renamed[target], origin[target] = value, name
        for target, name in self.aliases.items():
            renamed[target] = weights[name]
        metadata = getattr(weights, "_metadata", None)
        if metadata is not None:
            # Modules read their version from here: under the new names too, or an old file is
            # taken for a new one.
            renamed._metadata = rename_metadata(  # type: ignore[attr-defined]
                metadata, self.pairs
            )
        return renamed


def rename_metadata(metadata: Mapping[str, Any], pairs: Mapping[str, str]) -> OrderedDict[str, Any]:
    """Returns the versions that a state dict carries per module, under the new module names."""
    places: dict[str, str] = {}
    parents = {(name.rpartition(".")[0], other.rpartition(".")[0]) for name, other in pairs.items()}
    for path, other in sorted(parents):
        for old, new in _ancestors(
            path.split(".") if path else [], other.split(".") if other else []
        ):
            places.setdefault(old, new)
    inner: dict[str, str] = {}
    for old, new in places.items():
        # A wrapper and the module in it end up under one name: the module's own entry counts.
        if new not in inner or len(old) > len(inner[new]):
            inner[new] = old
    renamed: OrderedDict[str, Any] = OrderedDict()
    for path, value in metadata.items():
        start, rest = path, ""
        while start and start not in places:
            start, _, last = start.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        if start not in places:
            continue
        if inner[places[start]] == start:
            new = ".".join(part for part in (places[start], rest) if part)
            renamed[new] = value
    return renamed


def _ancestors(path: list[str], other: list[str]) -> Iterable[tuple[str, str]]:
    """Yields a module's path on both sides, then its parent's, as far as they correspond."""
    one, two = len(path), len(other)
    while True:
        yield ".".join(path[:one]), ".".join(other[:two])
        last = path[one - 1] if one else ""
        last_other = other[two - 1] if two else ""
        if last and last == last_other:
            one, two = one - 1, two - 1
        elif last in WRAPPERS:
            one -= 1
        elif last_other in WRAPPERS:
            two -= 1
        else:
            return


def tensors(names: Iterable[str]) -> str:
    """Counts them: `1 tensor`, `3 tensors`."""
    count = len(list(names))
    return f"{count} tensor" if count == 1 else f"{count} tensors"


def some(names: Iterable[str], most: int = 6) -> str:
    """Lists the first few names, and says how many more there are."""
    found = list(names)
    more = len(found) - most
    listed = ", ".join(found[:most])
    return f"{listed} and {more} more" if more > 0 else listed
