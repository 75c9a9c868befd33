"""The optimizer's state: whether it is there, complete, and lies at the right parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..keys.segments import without_wrappers
from .bits import equal
from .findings import (
    BY_DESIGN,
    CHANGED,
    DRIFT,
    NOT_RECORDED,
    OK,
    STATE,
    WORLD,
    Finding,
    fault,
    some,
)
from .live import Live, is_sharded
from .pairing import Pairing

# State that has its parameter's shape in every optimizer that keeps it.
_SHAPED = {
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "exp_inf",
    "acc_delta", "grad_avg", "sum", "prev", "ax",
}  # fmt: skip
_BOOKKEEPING = {"params", "param_names", "lr", "initial_lr", "foreach", "fused", "capturable"}


def check_optimizer(
    saved: Mapping[str, Any] | None,
    names: Sequence[str] | None,
    optimizer: Optimizer,
    live: Live | None,
    pairing: Pairing | None,
) -> Finding:
    """Compares the state with the file's, parameter by parameter.

    Args:
        saved: The optimizer's state dict in the file.
        names: The parameters' names in its order, as recorded at the save.
        optimizer: The live optimizer.
        live: The model.
        pairing: The model's weights in the file, whose order may tell the optimizer's.
    """
    ours = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    named = live.name_of() if live is not None else {}
    labels = [named.get(id(parameter), f"parameter {at}") for at, parameter in enumerate(ours)]
    astray = _astray(ours, live)
    if astray:
        return fault(DRIFT, astray)
    if saved is None:
        return Finding(NOT_RECORDED, "the file holds no optimizer state: it starts from nothing")
    if _is_zero(optimizer):
        return _check_zero(saved, optimizer)
    if any(is_sharded(parameter) for parameter in ours):
        return Finding(BY_DESIGN, "sharded with the parameters: not compared")
    sizes = [len(group["params"]) for group in saved["param_groups"]]
    mine = [len(group["params"]) for group in optimizer.param_groups]
    if sizes != mine:
        return fault(STATE, f"groups of {sizes} parameters in the file, of {mine} here")
    keys = [key for group in saved["param_groups"] for key in group["params"]]
    states = [saved["state"].get(key) for key in keys]
    if not any(states):
        kind = type(optimizer).__name__
        return Finding(OK, f"{kind} had kept no state for any parameter at the save")
    states_now = [optimizer.state.get(parameter) for parameter in ours]
    if not any(states_now):
        return fault(
            STATE,
            f"empty: the file has the state of {sum(map(bool, states))} parameters, "
            f"the optimizer here of none{_age(states)}",
            nothing=True,
        )
    names = _cleaned(names or _names_in(saved), labels)
    return (
        _check_places(states, states_now, ours, labels)
        or _check_alignment(states, states_now, names, labels)
        or _check_order(names, labels, pairing, live)
        or _settled(saved, optimizer, states, names)
    )


def _astray(ours: list[Tensor], live: Live | None) -> str:
    """Says if the optimizer updates tensors that are no longer the model's."""
    if live is None:
        return ""
    known = {id(parameter) for parameter in live.parameters.values()}
    held = {id(parameter) for parameter in ours}
    strangers = [parameter for parameter in ours if id(parameter) not in known]
    left = {
        name: tuple(parameter.shape)
        for name, parameter in live.parameters.items()
        if parameter.requires_grad and id(parameter) not in held
    }
    shapes = {tuple(parameter.shape) for parameter in strangers}
    lost = [name for name, shape in left.items() if shape in shapes]
    if not lost:
        return ""
    return (
        f"the optimizer updates {len(strangers)} tensors that are not the model's "
        f"({some(lost)} were replaced: assign=True, or a model rebuilt after the optimizer)"
    )


def _check_places(
    states: list[Any], states_now: list[Any], ours: list[Tensor], labels: list[str]
) -> Finding | None:
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


def _check_alignment(
    states: list[Any], states_now: list[Any], names: Sequence[str] | None, labels: list[str]
) -> Finding | None:
    by_name = dict(zip(names, states, strict=True)) if names else {}
    aligned = bool(names) and set(labels) == set(by_name)
    expected = [by_name[label] for label in labels] if aligned else states
    for at, (want, now) in enumerate(zip(expected, states_now, strict=True)):
        key = _differs(want, now)
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


def _differs(want: Any, now: Any) -> str | None:
    """Returns the first key that differs, if any."""
    if not want:
        return None
    for key, value in want.items():
        other = (now or {}).get(key)
        if isinstance(value, Tensor) and isinstance(other, Tensor):
            if value.numel() == 1 and other.numel() == 1:
                if value.item() != other.item() and value.item() == value.item():
                    return str(key)
            elif not equal(other, value):
                return str(key)
        elif _scalar(value) != _scalar(other):
            return str(key)
    return None


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _owner(now: Any, states: list[Any]) -> int | None:
    for at, state in enumerate(states):
        if state and _differs(state, now) is None:
            return at
    return None


def _how(want: Any, now: Any, key: str) -> str:
    value, other = _scalar(want[key]), _scalar((now or {}).get(key))
    if not isinstance(value, Tensor) and not isinstance(other, Tensor):
        return f"is {other}, saved {value}"
    return "differs from the file"


def _check_order(
    names: Sequence[str] | None, labels: list[str], pairing: Pairing | None, live: Live | None
) -> Finding | None:
    """Without names: a model whose parameters changed places gives moments to the wrong ones."""
    if names or pairing is None or live is None or len(set(labels)) != len(labels):
        return None
    known = set(labels)
    in_file = [name for name in pairing.order if name in known]
    in_model = [name for name in live.parameters if name in known]
    if len(in_file) != len(labels) or in_file == in_model or labels != in_model:
        return None
    moved = [new for new, old in zip(labels, in_file, strict=True) if new != old]
    return fault(
        STATE,
        f"the file's weights are in another order than the model's ({some(moved)}): the state "
        "went by position, so to the wrong parameters",
    )


def _settled(
    saved: Mapping[str, Any], optimizer: Optimizer, states: list[Any], names: Sequence[str] | None
) -> Finding:
    words = f"{sum(map(bool, states))} of {len(states)} parameters{_age(states)}"
    changed = []
    for group, old in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        for key in group.keys() & old.keys() - _BOOKKEEPING:
            value, was = _scalar(group[key]), _scalar(old[key])
            if _plain(value) and _plain(was) and _listed(value) != _listed(was):
                changed.append(f"{key} {was} to {value}")
    if changed:
        return Finding(CHANGED, f"{words}; {some(sorted(set(changed)))}")
    if not names:
        words += "; by position, the file does not record names"
    return Finding(OK, words)


def _plain(value: Any) -> bool:
    return isinstance(value, int | float | str | bool | tuple | list | None)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _age(states: list[Any]) -> str:
    steps = {_scalar(state["step"]) for state in states if state and "step" in state}
    return f", step {max(steps):.0f}" if steps else ""


def _names_in(saved: Mapping[str, Any]) -> list[str] | None:
    names = []
    for group in saved["param_groups"]:
        own = group.get("param_names")
        if not own or len(own) != len(group["params"]):
            return None
        names.extend(own)
    return names


def _cleaned(names: Sequence[str] | None, labels: list[str]) -> Sequence[str] | None:
    """Returns the names without wrappers' segments, if they are this model's only then."""
    if names is None or len(names) != len(labels):
        return None
    if set(names) != set(labels):
        bare = [".".join(without_wrappers(tuple(name.split(".")))) for name in names]
        if set(bare) == set(labels):
            return bare
    return names


def _is_zero(optimizer: Optimizer) -> bool:
    return any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__)


def _check_zero(saved: Mapping[str, Any], optimizer: Any) -> Finding:
    mine = getattr(getattr(optimizer, "optim", None), "state", None)
    if saved["state"] and not mine:
        return fault(WORLD, "sharded over the ranks (ZeRO), and this rank's part is empty")
    return Finding(BY_DESIGN, "sharded over the ranks (ZeRO): each keeps its own part")
