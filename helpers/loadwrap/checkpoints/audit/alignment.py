"""Whether each parameter has its own state, and not another one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .bits import equal
from .findings import STATE, Finding, fault, some
from .live import Live
from .pairing import Pairing

# State that has its parameter's shape in every optimizer that keeps it.
_SHAPED = {
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "exp_inf",
    "acc_delta", "grad_avg", "sum", "prev", "ax",
}  # fmt: skip


def check_places(
    states: list[Any], states_now: list[Any], ours: list[Tensor], labels: list[str]
) -> Finding | None:
    """Returns a fault if a state is missing, or has another shape or device than its parameter."""
    for state, parameter, label in zip(states_now, ours, labels, strict=True):
        for key, value in (state or {}).items():
            if not isinstance(value, Tensor) or key == "step" or value.dim() == 0:
                continue
            if key in _SHAPED and value.shape != parameter.shape:
                return fault(
                    STATE,
                    f"{key} of {label} has shape {tuple(value.shape)}, the parameter "
                    f"{tuple(parameter.shape)}: it belongs to another one",
                )
            if value.device != parameter.device:
                return fault(
                    STATE, f"{key} of {label} is on {value.device}, it on {parameter.device}"
                )
    lacking = [
        label
        for state, now, label in zip(states, states_now, labels, strict=True)
        if state and not now
    ]
    if lacking:
        return fault(STATE, f"no state for {some(lacking)}, which had some")
    return None


def check_alignment(
    states: list[Any], states_now: list[Any], names: Sequence[str] | None, labels: list[str]
) -> Finding | None:
    """Returns a fault if a parameter has another state than the file gives it: by name if known."""
    by_name = dict(zip(names, states, strict=True)) if names else {}
    aligned = bool(names) and set(labels) == set(by_name)
    expected = [by_name[label] for label in labels] if aligned else states
    for at, (want, now) in enumerate(zip(expected, states_now, strict=True)):
        key = differs(want, now)
        if key is None:
            continue
        holder = _owner(now, states)
        who = labels if names is None else names
        if holder is not None and (aligned or holder != at):
            return fault(
                STATE, f"{labels[at]} has the {key} that was {who[holder]}'s: permuted parameters"
            )
        return fault(STATE, f"{key} of {labels[at]} {_how(want, now, key)}")
    return None


def differs(want: Any, now: Any) -> str | None:
    """Returns the first key that differs, if any."""
    if not want:
        return None
    for key, value in want.items():
        other = (now or {}).get(key)
        if key != "step" and isinstance(value, Tensor) and isinstance(other, Tensor):
            if not equal(other, value):  # loading gives it the parameter's own type
                return str(key)
        elif scalar(value) != scalar(other):
            return str(key)
    return None


def scalar(value: Any) -> Any:
    """Returns a tensor of one element as a number, and anything else as it is."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _owner(now: Any, states: list[Any]) -> int | None:
    for at, state in enumerate(states):
        if state and differs(state, now) is None:
            return at
    return None


def _how(want: Any, now: Any, key: str) -> str:
    value, other = scalar(want[key]), scalar((now or {}).get(key))
    if not isinstance(value, Tensor) and not isinstance(other, Tensor):
        return f"is {other}, saved {value}"
    return "differs from the file"


def check_order(
    names: Sequence[str] | None,
    labels: list[str],
    sizes: list[int],
    pairing: Pairing | None,
    live: Live | None,
) -> Finding | None:
    """Without names: a model whose parameters changed places gives moments to the wrong ones."""
    if names or pairing is None or live is None or len(set(labels)) != len(labels):
        return None
    in_file = {name: at for at, name in enumerate(pairing.order)}
    in_model = {name: at for at, name in enumerate(live.parameters)}
    if not in_file.keys() >= set(labels) <= in_model.keys():
        return None
    if list(in_file) == sorted(in_file):
        return None  # put in order by whoever wrote it: that tells nothing
    moved, start = [], 0
    for size in sizes:
        group = labels[start : start + size]
        start += size
        if group != sorted(group, key=in_model.__getitem__):
            return None  # an order of its own, of which the file tells nothing
        then = sorted(group, key=in_file.__getitem__)
        moved += [new for new, old in zip(group, then, strict=True) if new != old]
    if not moved:
        return None
    return fault(
        STATE,
        f"the file's weights are in another order than the model's ({some(moved)}): the state "
        "went by position, so to the wrong parameters",
    )
