"""The optimizer's state: whether it is there, complete, and lies at the right parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..files.kinds import other_kind
from ..keys.segments import without_wrappers
from .alignment import check_alignment, check_order, check_places, differs, scalar
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

_BOOKKEEPING = {"params", "param_names", "lr", "initial_lr", "foreach", "fused", "capturable"}


def own_state(saved: Sequence[Mapping[str, Any]], optimizer: Optimizer) -> Mapping[str, Any] | None:
    """Returns the state in a file that is this optimizer's, where the file has several."""
    if len(saved) < 2:
        return saved[0] if saved else None
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    fit = [one for one in saved if [len(g["params"]) for g in one["param_groups"]] == sizes]
    return max(fit or saved[:1], key=lambda one: _agreement(one, optimizer))


def _agreement(saved: Mapping[str, Any], optimizer: Optimizer) -> int:
    keys = [key for group in saved["param_groups"] for key in group["params"]]
    ours = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return sum(
        differs(saved["state"].get(key), optimizer.state.get(parameter)) is None
        for key, parameter in zip(keys, ours, strict=False)
    )


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
    if wrong := other_kind(saved, optimizer):
        return fault(STATE, wrong, nothing=not any(map(optimizer.state.get, ours)))
    if _is_zero(optimizer):
        return _check_zero(saved, optimizer)
    if any(is_sharded(parameter) for parameter in ours):
        if saved["state"] and not any(optimizer.state.get(parameter) for parameter in ours):
            return fault(STATE, "empty, and the file has a state", nothing=True)
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
        check_places(states, states_now, ours, labels)
        or check_alignment(states, states_now, names, labels)
        or check_order(names, labels, mine, pairing, live)
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
    shapes = Counter(tuple(parameter.shape) for parameter in strangers)
    # A stranger may belong to a loss of its own; one of each lost parameter's shape does not.
    if not strangers or shapes - Counter(left.values()):
        return ""
    lost = [name for name, shape in left.items() if shape in shapes]
    return (
        f"the optimizer updates {len(strangers)} tensors that are not the model's "
        f"({some(lost)} were replaced: assign=True, or a model rebuilt after the optimizer)"
    )


def _settled(
    saved: Mapping[str, Any], optimizer: Optimizer, states: list[Any], names: Sequence[str] | None
) -> Finding:
    words = f"{sum(map(bool, states))} of {len(states)} parameters{_age(states)}"
    changed = []
    for group, old in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        for key in group.keys() & old.keys() - _BOOKKEEPING:
            value, was = scalar(group[key]), scalar(old[key])
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
    steps = {scalar(state["step"]) for state in states if state and "step" in state}
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
