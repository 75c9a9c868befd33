"""The state of the random numbers on each rank."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .findings import CHANGED, DATA, LOOK, NOT_RECORDED, OK, Finding, fault
from .saved import Saved


def hash_of(state: Tensor) -> str:
    """Returns a short name of a generator's state."""
    return hashlib.blake2b(state.cpu().contiguous().numpy().tobytes(), digest_size=4).hexdigest()


def check_chance(saved: Saved, state: Tensor, rank: int, world: int) -> Finding:
    """Compares this rank's default CPU generator with the file's.

    Args:
        saved: The checkpoint.
        state: The state when the audit began.
        rank: This rank.
        world: How many ranks there are.
    """
    saved_states = list(_states(saved.tree, state.numel()))
    now = hash_of(state)
    if not saved_states:
        return Finding(NOT_RECORDED, f"the file holds no random state; here {now}")
    if len(saved_states) not in (1, saved.world_size or world):
        return Finding(
            NOT_RECORDED, f"{len(saved_states)} states in the file, for which rank each?"
        )
    if len(saved_states) == 1 and world > 1:
        then = hash_of(saved_states[0])
        if rank and now == then:
            return Finding(LOOK, f"{now}: rank 0's, which every rank has")
        if rank:
            return Finding(NOT_RECORDED, f"the file holds rank 0's alone; here {now}")
    elif rank >= len(saved_states):
        return Finding(CHANGED, f"rank {rank} did not exist at the save; here {now}")
    then = hash_of(saved_states[rank])
    if now == then:
        return Finding(OK, f"{now}, as at the save")
    return fault(
        DATA,
        f"{now}, saved {then}: restore the random state last, after iter(loader), which draws",
    )


def _states(tree: Mapping[str, Any], size: int) -> Iterator[Tensor]:
    """Yields the states of the CPU generator in a checkpoint, in the order of the ranks."""
    for key, value in tree.items():
        name = str(key).lower()
        if "rng" in name or "random" in name:
            yield from _inside(value, size)
        elif name in ("extra", "extra_state", "meta") and isinstance(value, Mapping):
            yield from _states(value, size)


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
