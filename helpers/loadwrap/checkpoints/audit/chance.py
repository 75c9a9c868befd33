"""The state of the random numbers on each rank."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .findings import CHANGED, DATA, LOOK, NOT_RECORDED, OK, Finding, fault
from .saved import Saved

_NUMBERED = re.compile(r"\d")


def hash_of(state: Tensor) -> str:
    """Returns a short name of a generator's state."""
    return hashlib.blake2b(bytes(state.cpu().tolist()), digest_size=4).hexdigest()


def check_chance(saved: Saved, state: Tensor, rank: int, world: int) -> Finding:
    """Compares this rank's default CPU generator with the file's.

    Args:
        saved: The checkpoint.
        state: The state when the audit began.
        rank: This rank.
        world: How many ranks there are.
    """
    saved_states = _states(saved.tree, state.numel(), saved.world_size or world)
    now = hash_of(state)
    if not saved_states:
        return Finding(NOT_RECORDED, f"the file holds no random state; here {now}")
    then_world = saved.world_size or len(saved_states)
    if len(saved_states) == 1 and world > 1 and saved.world_size != 1:
        then = hash_of(saved_states[0])
        if rank and now == then:
            return Finding(LOOK, f"{now}: rank 0's, which every rank has")
        if rank:
            return Finding(NOT_RECORDED, f"the file holds rank 0's alone; here {now}")
    elif then_world != world:
        return Finding(CHANGED, f"the file holds {len(saved_states)} ranks' states; here {now}")
    elif len(saved_states) != world:
        return Finding(
            NOT_RECORDED, f"{len(saved_states)} states in the file: which rank has which?"
        )
    then = hash_of(saved_states[rank])
    if now == then:
        return Finding(OK, f"{now}, as at the save")
    others = [hash_of(state) for state in saved_states]
    if now in others:
        return fault(DATA, f"the state that rank {others.index(now)} had, not this rank's")
    words = f"{now}, saved {then}: restore it last, after iter(loader), which draws from it"
    # load_checkpoint leaves it to the caller, who may do it after the audit.
    return fault(DATA, words) if saved.random_restored else Finding(LOOK, words)


def _states(tree: Mapping[str, Any], size: int, world: int) -> list[Tensor]:
    """Returns the states of the CPU generator in a checkpoint, in the order of the ranks."""
    groups = dict(_groups(tree, size))
    if len(groups) > 1 and not all(_NUMBERED.search(name) for name in groups):
        # Several generators: the default one is called after torch, or has a state for each rank.
        for name, states in groups.items():
            if "torch" in name or "cpu" in name or len(states) == world > 1:
                return states
        return []
    return [state for name in sorted(groups, key=_rank_first) for state in groups[name]]


def _groups(tree: Mapping[str, Any], size: int) -> Iterator[tuple[str, list[Tensor]]]:
    """Yields the states below each entry that is named as one of random numbers."""
    for key, value in tree.items():
        name = str(key).lower()
        if "rng" in name or "random" in name:
            parts = value.items() if isinstance(value, Mapping) else [("", value)]
            for inner, part in parts:
                if found := list(_inside(part, size)):
                    yield f"{name}.{str(inner).lower()}", found
        elif name in ("extra", "extra_state", "meta") and isinstance(value, Mapping):
            yield from _groups(value, size)


def _inside(value: Any, size: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.dtype == torch.uint8 and value.numel() == size:
            yield value
    elif isinstance(value, Mapping):
        keys = sorted(value, key=_rank_first)
        for key in keys:
            yield from _inside(value[key], size)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _inside(part, size)


def _rank_first(key: Any) -> tuple[int, str]:
    digits = "".join(char for char in str(key) if char.isdigit())
    return (int(digits) if digits else -1, str(key))
