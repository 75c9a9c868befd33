"""Finds the entries of a checkpoint that hold weights, however deep they lie."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .sides import Entry, Side, entry, is_tensor

Where = tuple[str | int, ...]

# Parts of a checkpoint that hold tensors which are no weights.
_NOT_WEIGHTS = ("optim", "sched", "scaler", "rng", "random_state", "exp_avg", "momentum_buffer")
_DEEPEST = 4
_LONGEST_LIST = 16


@dataclass(frozen=True)
class Candidate:
    """One entry that may hold the weights."""

    where: Where
    side: Side
    pickled: bool = False
    """The entry is a whole module, not its state dict."""
    joined: tuple[str, ...] = ()
    """The entries that together are the model's state dict, each holding one child's."""

    @property
    def name(self) -> str:
        """Its dotted place in the file, such as `model` or `extra_state.ema`."""
        return ".".join(map(str, self.where))

    @property
    def rank(self) -> int:
        """How far it stands from the weights that are trained: 0 for these, more for averages."""
        words = "_".join(map(str, self.where)).lower().replace("-", "_").replace(".", "_")
        parts = set(words.split("_"))
        if parts & {"ema", "averaged", "average", "shadow", "swa", "target", "momentum"}:
            return 3
        # DINO's own convention: the teacher is the network that is used afterwards.
        return 2 if "student" in parts else int("teacher" in parts)

    def code(self, root: str) -> str:
        """Spells it in Python, below the name of what was loaded."""
        if self.joined:
            parts = ", ".join(map(_quoted, self.joined))
            return (
                f'{{f"{{part}}.{{key}}": value for part in ({parts}) '
                f"for key, value in {root}[part].items()}}"
            )
        spelled = root + "".join(f"[{_quoted(key)}]" for key in self.where)
        return f"{spelled}.state_dict()" if self.pickled else spelled

    def get(self, checkpoint: object) -> Mapping[str, object]:
        """Takes it out of what was loaded.

        Raises:
            KeyError, IndexError, TypeError: If it is not there.
        """
        found: object = checkpoint
        for key in self.where:
            found = found[key]  # type: ignore[index]
        if isinstance(found, torch.nn.Module):
            return found.state_dict()
        if not isinstance(found, Mapping):
            raise TypeError(f"{self.name} is no mapping")
        if not self.joined:
            return found
        parts = {part: found[part] for part in self.joined}
        return {f"{part}.{key}": value for part in parts for key, value in parts[part].items()}


def candidates(checkpoint: object, children: Collection[str] = ()) -> list[Candidate]:
    """Returns every entry that holds tensors by name, except optimizer and random state.

    Args:
        checkpoint: What was loaded, or what was read of it.
        children: What the model calls its children: entries of these names may hold one each.
    """
    found = list(_walk(checkpoint, (), _DEEPEST))
    single = {one.where[0]: one.side for one in found if len(one.where) == 1 and not one.pickled}
    parts = tuple(str(part) for part in single if part in children)
    if len(parts) > 1:
        entries = {
            f"{part}.{name}": entry
            for part in parts
            for name, entry in single[part].entries.items()
        }
        found.append(Candidate((), Side(entries), joined=parts))
    return found


def _walk(value: object, where: Where, deeper: int) -> Iterator[Candidate]:
    if isinstance(value, torch.nn.Module):
        yield Candidate(where, _side(value.state_dict()), pickled=True)
        return
    attributes = getattr(value, "attributes", None)
    if isinstance(attributes, dict) and "_modules" in attributes:
        # A pickled module that was read without being executed.
        yield Candidate(where, Side(dict(_taken_apart(attributes, ""))), pickled=True)
        return
    if isinstance(value, list | tuple):
        if deeper and len(value) <= _LONGEST_LIST:
            for index, part in enumerate(value):
                if not is_tensor(part):
                    yield from _walk(part, (*where, index), deeper - 1)
        return
    if not isinstance(value, Mapping) or {"state", "param_groups"} <= value.keys():
        return
    if any(isinstance(key, str) and is_tensor(part) for key, part in value.items()):
        yield Candidate(where, _side(value))
    if not deeper:
        return
    for key, part in value.items():
        if isinstance(key, str) and any(word in key.lower() for word in _NOT_WEIGHTS):
            continue
        if isinstance(key, str) and not is_tensor(part):
            yield from _walk(part, (*where, key), deeper - 1)


def _side(values: Mapping[Any, Any]) -> Side:
    entries, plain = {}, []
    for key, value in values.items():
        # A module may save anything at all under this name of torch's.
        if isinstance(key, str) and (is_tensor(value) or key.endswith("_extra_state")):
            entries[key] = entry(key, value)
        else:
            plain.append(str(key))
    attributes = getattr(values, "attributes", {})  # a state dict that was read, not executed
    versions = getattr(values, "_metadata", None) or attributes.get("_metadata") or {}
    # torch's own rule: before version 2 a batch norm had no counter, and loading adds it.
    old = all(int(one.get("version") or 0) < 2 for one in versions.values())
    return Side(entries, plain=tuple(plain), counts_itself=old)


def _taken_apart(attributes: Mapping[str, Any], start: str) -> Iterator[tuple[str, Entry]]:
    hidden = attributes.get("_non_persistent_buffers_set") or ()
    for kind in ("_parameters", "_buffers"):
        for name, value in (attributes.get(kind) or {}).items():
            if is_tensor(value) and name not in hidden:
                yield start + name, entry(start + name, value)
    for name, module in (attributes.get("_modules") or {}).items():
        inner = getattr(module, "attributes", None)
        if isinstance(inner, dict):
            yield from _taken_apart(inner, f"{start}{name}.")


def _quoted(key: str | int) -> str:
    if isinstance(key, int):
        return str(key)
    return f'"{key}"' if key.isprintable() and not set(key) & set('"\\') else repr(key)
