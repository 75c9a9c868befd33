"""Finds the weights in a checkpoint's tree, those of pickled modules included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..formats.sharded import as_tensor
from ..formats.values import STATE, Refused, StateDict, TensorInfo, spell
from ..keys.segments import WRAPPERS

MOST = 200_000
# Entries that hold tensors which are no weights.
NOT_WEIGHTS = ("optim", "sched", "scaler", "rng", "random_state", "sampler", "loss_state")


@dataclass
class Weights:
    """One entry of a checkpoint that holds weights.

    Attributes:
        path: The keys that lead to it; () if it is the whole file.
        tensors: Name and description of each tensor, in the file's order.
        pickled: The class of the pickled module they come from, or "".
        beside: Names in it that hold no tensor.
    """

    path: tuple[Any, ...]
    tensors: dict[str, TensorInfo]
    pickled: str = ""
    beside: int = 0

    @property
    def code(self) -> str:
        """How Python takes it out of what was loaded."""
        return spell(self.path) + (".state_dict()" if self.pickled else "")

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors; memory that two of them share is counted once."""
        seen: dict[Any, int] = {}
        for tensor in self.tensors.values():
            key = (tensor.storage, tensor.offset) if tensor.storage else id(tensor)
            seen[key] = max(seen.get(key, 0), tensor.nbytes)
        return sum(seen.values())

    @property
    def average(self) -> bool:
        """Whether its name says that it is an average of the trained weights."""
        words = "_".join(str(step) for step in self.path).lower()
        named = any(word in words for word in ("ema", "averag", "shadow", "swa"))
        return named or "n_averaged" in self.tensors

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The wrappers' segments with which every name begins, from the outside in."""
        names = list(self.tensors)
        found: list[str] = []
        while names:
            first = {name.partition(".")[0] for name in names if name != "n_averaged"}
            if len(first) != 1 or (segment := first.pop()) not in WRAPPERS:
                break
            found.append(segment)
            names = [name.partition(".")[2] for name in names if name != "n_averaged"]
        return tuple(found)


def find_weights(tree: Any) -> list[Weights]:
    """Every entry that holds weights, the likeliest to be the trained ones first."""
    found = list(_walk(tree, (), 4, ()))
    found.sort(key=lambda one: (one.average, -len(one.tensors)))
    return found


def _walk(value: Any, path: tuple[Any, ...], deeper: int, above: tuple[int, ...]) -> list[Weights]:
    if id(value) in above:
        return []  # it holds itself: the way that leads to it first is the shortest
    above = (*above, id(value))
    if isinstance(value, Refused):
        flat = module_tensors(value)
        if flat:
            return [Weights(path, flat, pickled=value.name)]
        value = value.entries or value.attributes
    if isinstance(value, (list, tuple)):
        if not deeper or len(value) > 16:
            return []
        return [
            one
            for index, part in enumerate(value)
            if isinstance(part, (dict, Refused))
            for one in _walk(part, (*path, index), deeper - 1, above)
        ]
    if not isinstance(value, dict) or {"state", "param_groups"} <= value.keys():
        return []
    found = []
    tensors = {
        k: tensor
        for k, v in value.items()
        if isinstance(k, str) and (tensor := as_tensor(v)) is not None
    }
    below = []
    if deeper and len(value) < 10_000:
        for key, part in value.items():
            if isinstance(key, str) and not any(word in key.lower() for word in NOT_WEIGHTS):
                if key not in tensors and isinstance(part, (dict, list, tuple, Refused)):
                    below += _walk(part, (*path, key), deeper - 1, above)
    # A metric or a counter beside the real weights is a tensor too.
    dotted = any("." in key for key in tensors)
    if tensors and (dotted or not below or len(tensors) > 4):
        found.append(Weights(path, tensors, beside=len(value) - len(tensors)))
    return found + below


def module_tensors(module: Refused) -> dict[str, TensorInfo]:
    """What ``state_dict()`` of a pickled module would hold, read from its attributes."""
    flat: dict[str, TensorInfo] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", module)]
    while waiting and len(flat) < MOST:
        prefix, value = waiting.pop()
        if not isinstance(value, Refused) or id(value) in seen or len(prefix) > 2000:
            continue
        seen.add(id(value))
        attributes = value.attributes
        children = attributes.get("_modules")
        skipped = attributes.get("_non_persistent_buffers_set")
        for held in ("_parameters", "_buffers"):
            tensors = attributes.get(held)
            if not isinstance(tensors, dict) or not isinstance(children, dict):
                continue
            for name, tensor in tensors.items():
                unsaved = held == "_buffers" and isinstance(skipped, list) and name in skipped
                if isinstance(name, str) and isinstance(tensor, TensorInfo) and not unsaved:
                    flat[f"{prefix}{name}"] = tensor
        if isinstance(children, dict):
            waiting.extend(
                (f"{prefix}{name}.", child) for name, child in reversed(children.items())
            )
    return flat


def for_keys(tree: Any) -> Any:
    """The tree as explain_keys reads it: a mapping or a list, whatever the file holds."""
    if isinstance(tree, Refused):
        return StateDict(module_tensors(tree)) or _for_keys(tree.entries, 5, ())
    return _for_keys(tree, 5, ()) if isinstance(tree, (dict, list, tuple)) else {}


def _for_keys(tree: Any, deeper: int, above: tuple[int, ...]) -> Any:
    """With sharded tensors as tensors, and other refused objects as what was set in them."""
    if isinstance(tree, Refused):
        sharded = as_tensor(tree)
        if sharded is not None or "_modules" in tree.attributes:
            return sharded or tree
        return _for_keys(tree.entries or None, deeper, above)
    if id(tree) in above:
        return None  # it holds itself
    inside = (*above, id(tree))
    if deeper and isinstance(tree, dict):
        made = StateDict({k: _for_keys(v, deeper - 1, inside) for k, v in tree.items()})
        made.attributes = getattr(tree, "attributes", {})
        return made
    if deeper and isinstance(tree, (list, tuple)) and len(tree) <= 16:
        return [_for_keys(value, deeper - 1, inside) for value in tree]
    return tree


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """What lies at a path of ``walk``'s; None if nothing does."""
    for step in path:
        if isinstance(tree, Refused):
            tree = tree.state if step is STATE else (tree.entries or tree.attributes)
            if step is STATE:
                continue
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            return None
    return tree
