"""Finds the parts of a checkpoint that ``save_checkpoint`` did not write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

# What people call them, the commonest first; lower case.
_NAMES = {
    "optimizer": ("optimizer", "optimizer_state_dict", "optimizer_state", "optim", "opt"),
    "scheduler": (
        "scheduler",
        "lr_scheduler",
        "scheduler_state_dict",
        "lr_scheduler_state_dict",
        "sched",
    ),
    "scaler": ("scaler", "amp_scaler", "scaler_state_dict", "grad_scaler", "fp16_scaler"),
    "ema": ("ema", "model_ema", "ema_state_dict", "state_dict_ema", "ema_model", "params_ema"),
    "sampler": ("sampler", "sampler_state_dict"),
}
_LISTS = {"optimizer": "optimizer_states", "scheduler": "lr_schedulers"}  # Lightning's
_STEPS = ("step", "global_step", "iteration", "iter", "iter_num", "steps", "num_steps")
_EPOCHS = ("epoch", "epochs_run", "current_epoch", "start_epoch")


def part_of(tree: Mapping[str, Any], part: str) -> Any:
    """Returns a part's state, or None if the file does not have it."""
    lower = {str(key).lower(): value for key, value in tree.items()}
    for name in _NAMES[part]:
        if isinstance(lower.get(name), Mapping):
            return lower[name]
    several = lower.get(_LISTS.get(part, ""))
    if isinstance(several, list | tuple) and len(several) == 1:
        return several[0]
    return None


def step_of(tree: Any) -> int | None:
    """Returns the number of steps done that a checkpoint tells."""
    return _number(tree, _STEPS)


def epoch_of(tree: Any) -> int | None:
    """Returns the epoch that a checkpoint tells."""
    return _number(tree, _EPOCHS)


def rest_of(tree: Mapping[str, Any], model_key: str) -> dict[str, Any]:
    """Returns the entries that are none of the parts and hold no weights."""
    used = {name for names in _NAMES.values() for name in names}
    used |= {*_LISTS.values(), *_STEPS, *_EPOCHS, model_key.partition(".")[0].lower()}
    return {
        key: value
        for key, value in tree.items()
        if str(key).lower() not in used and not _holds_tensors(value)
    }


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_tensors(part) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_holds_tensors(part) for part in value)
    return isinstance(value, Tensor) and value.numel() > 1


def _number(tree: Any, names: tuple[str, ...]) -> int | None:
    if not isinstance(tree, Mapping):
        return None
    for place in (tree, tree.get("meta")):
        if not isinstance(place, Mapping):
            continue
        lower = {str(key).lower(): value for key, value in place.items()}
        for name in names:
            value = lower.get(name)
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, int | float) and not isinstance(value, bool):
                if float(value).is_integer():
                    return int(value)
    return None
