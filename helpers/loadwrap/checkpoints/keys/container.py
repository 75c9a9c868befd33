"""Finds the entries of a checkpoint that hold weights, however deep they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .sides import Side, entry, is_tensor

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
        return found


def candidates(checkpoint: object) -> list[Candidate]:
    """Returns every entry that holds tensors by name, except optimizer and random state."""
    return list(_walk(checkpoint, (), _DEEPEST))


def _walk(value: object, where: Where, deeper: int) -> Iterator[Candidate]:
    if isinstance(value, torch.nn.Module):
        yield Candidate(where, _side(value.state_dict()), pickled=True)
        return
    if isinstance(value, list | tuple):
        if deeper and len(value) <= _LONGEST_LIST:
            for index, part in enumerate(value):
                if isinstance(part, Mapping | torch.nn.Module):
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
        if isinstance(key, str) and isinstance(part, Mapping | list | tuple | torch.nn.Module):
            yield from _walk(part, (*where, key), deeper - 1)


def _side(values: Mapping[Any, Any]) -> Side:
    entries, plain = {}, []
    for key, value in values.items():
        # A module may save anything at all under this name of torch's.
        if isinstance(key, str) and (is_tensor(value) or key.endswith("_extra_state")):
            entries[key] = entry(key, value)
        else:
            plain.append(str(key))
    versions = getattr(values, "_metadata", None) or {}
    # torch's own rule: before version 2 a batch norm had no counter, and loading adds it.
    old = all(int(one.get("version") or 0) < 2 for one in versions.values())
    return Side(entries, plain=tuple(plain), counts_itself=old)


def _quoted(key: str | int) -> str:
    if isinstance(key, int):
        return str(key)
    return f'"{key}"' if key.isprintable() and not set(key) & set('"\\') else repr(key)
