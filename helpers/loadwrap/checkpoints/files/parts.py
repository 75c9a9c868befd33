"""What goes into a checkpoint: the state of every object that was given."""

from __future__ import annotations

from typing import Any

from torch import nn

from .names import named_state, optimizer_names
from .plain import plain

PARTS = ("model", "optimizer", "scheduler", "scaler", "ema", "sampler")
FORMAT = 1
_POSITION = ("epoch", "seed", "shuffle", "drop_last", "num_replicas", "num_samples", "total_size")


def collect(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the states of the objects that are not None, as plain values and tensors.

    Args:
        given: {part: object}, parts as in `PARTS`.

    Raises:
        TypeError: An object has no state to take, or one that could not be read back.
    """
    states: dict[str, Any] = {}
    for part in PARTS:
        thing = given.get(part)
        if thing is None:
            continue
        if part == "sampler":
            states[part] = sampler_state(thing)
        elif isinstance(thing, nn.Module):
            states[part] = named_state(thing)
        elif hasattr(thing, "state_dict"):
            states[part] = thing.state_dict()
        else:
            raise TypeError(f"{part} is a {type(thing).__name__}, which has no state_dict()")
        states[part] = plain(states[part], part)
    if "optimizer" in states:
        names = optimizer_names(given["optimizer"], given["model"])
        if names is not None:
            states["optimizer_names"] = names
    return states


def sampler_state(sampler: Any) -> dict[str, Any]:
    """Returns where a sampler stands: its own state dict, or its epoch, seed and share."""
    state: dict[str, Any] = {"class": type(sampler).__name__}
    for name in _POSITION:
        value = getattr(sampler, name, None)
        if isinstance(value, bool | int):
            state[name] = value
    if callable(getattr(sampler, "state_dict", None)):
        state["state"] = sampler.state_dict()
    elif len(state) == 1:
        state["class"] = type(sampler).__name__
    return state


def check_given(given: dict[str, Any]) -> None:
    """Raises TypeError for an object that cannot be what its keyword says."""
    if not isinstance(given.get("model"), nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(given.get('model')).__name__}")
    if any(
        kind.__name__ == "FullyShardedDataParallel"
        for module in given["model"].modules()
        for kind in type(module).__mro__
    ):
        raise TypeError(
            "the model is sharded (FSDP): each rank has a piece of it; use "
            "torch.distributed.checkpoint"
        )
    for part in ("optimizer", "scheduler", "scaler", "ema"):
        thing = given.get(part)
        if thing is not None and not (
            hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")
        ):
            raise TypeError(
                f"{part} is a {type(thing).__name__}, which has no state_dict() and "
                "load_state_dict()"
            )
