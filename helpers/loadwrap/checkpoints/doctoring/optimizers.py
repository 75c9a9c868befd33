"""Tells from an optimizer's saved state which optimizer it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..formats.checkpoint import total
from ..formats.values import TensorInfo

# Entries of one parameter's state that belong to one sort of optimizer, the surest first.
_STATE = (
    ({"exp_avg", "exp_inf"}, "Adamax"),
    ({"exp_avg", "exp_avg_sq", "mu_product"}, "NAdam"),
    ({"exp_avg_sq_row"}, "Adafactor"),
    ({"row_var"}, "Adafactor"),
    ({"exp_avg", "exp_avg_diff"}, "Adan"),
    ({"exp_avg", "exp_avg_sq"}, "Adam"),
    ({"state1", "state2"}, "an 8-bit Adam"),
    ({"acc_delta", "square_avg"}, "Adadelta"),
    ({"square_avg"}, "RMSprop"),
    ({"prev", "step_size"}, "Rprop"),
    ({"ax", "eta"}, "ASGD"),
    ({"sum"}, "Adagrad"),
    ({"momentum_buffer"}, "SGD"),
    ({"exp_avg"}, "Lion"),
    ({"old_dirs"}, "LBFGS"),
)
# The same from the settings of a group, for an optimizer without any state.
_GROUP = (
    ({"momentum_decay"}, "NAdam"),
    ({"ns_steps"}, "Muon"),
    ({"history_size"}, "LBFGS"),
    ({"betas", "amsgrad"}, "Adam"),
    ({"betas"}, "of the Adam family (Adamax, RAdam, Lion, LAMB …)"),
    ({"lr_decay"}, "Adagrad"),
    ({"rho"}, "Adadelta"),
    ({"alpha", "centered"}, "RMSprop"),
    ({"lambd"}, "ASGD"),
    ({"etas"}, "Rprop"),
    ({"nesterov"}, "SGD"),
)


@dataclass
class Optimizer:
    """What an optimizer's saved state says of it.

    Attributes:
        where: How Python takes it out of what was loaded, or the file it is in.
        kind: "AdamW", "SGD with momentum", or "unknown".
        groups: Number of parameter groups.
        parameters: Number of parameters in all groups.
        stated: Number of parameters that have state.
        nbytes: Size of the state, in bytes.
        rates: The learning rate of each group.
        step: The largest step count in the state, or None (not read: a tensor).
        named: Whether the parameters' names were saved with it.
    """

    where: str
    kind: str
    groups: int
    parameters: int
    stated: int
    nbytes: int
    rates: list[float]
    step: float | None
    named: bool


def read_optimizer(where: str, value: Any) -> Optimizer | None:
    """Reads what ``optimizer.state_dict()`` gave; None if this is nothing of the sort."""
    if not isinstance(value, dict) or not {"state", "param_groups"} <= value.keys():
        return None
    groups = [group for group in _list(value["param_groups"]) if isinstance(group, dict)]
    state = value["state"] if isinstance(value["state"], dict) else {}
    entries = [entry for entry in state.values() if isinstance(entry, dict)]
    held = {key for entry in entries[:200] for key in entry if isinstance(key, str)}
    set_ = {key for group in groups[:50] for key in group if isinstance(key, str)}
    kind = next((name for needs, name in _STATE if needs <= held), "")
    kind = kind or next((name for needs, name in _GROUP if needs <= set_), "unknown")
    first = groups[0] if groups else {}
    if kind == "Adam" and "amsgrad" not in set_:
        kind = "of the Adam family (RAdam, LAMB …)"
    elif kind == "Adam":
        decoupled = first.get("decoupled_weight_decay")
        kind = "AdamW" if decoupled is True else "Adam" if decoupled is False else "Adam or AdamW"
        if first.get("amsgrad") is True:
            kind += " with amsgrad"
    elif kind == "SGD":
        kind = "SGD with momentum" if first.get("momentum") else "SGD without momentum"
    steps = [entry.get("step") for entry in entries]
    counted = [step for step in steps if isinstance(step, (int, float))]
    stated = sum(1 for entry in entries if any(isinstance(v, TensorInfo) for v in entry.values()))
    return Optimizer(
        where,
        kind,
        len(groups),
        sum(len(_list(group.get("params"))) for group in groups) or stated,
        stated,
        total(state),
        [group["lr"] for group in groups if isinstance(group.get("lr"), (int, float))],
        max(counted) if counted else None,
        any("param_names" in group for group in groups),
    )


def _list(value: Any) -> list[Any]:
    if isinstance(value, dict) and all(isinstance(key, int) for key in value):
        return list(value.values())  # a list, as a folder of shards names its parts
    return list(value) if isinstance(value, (list, tuple)) else []
