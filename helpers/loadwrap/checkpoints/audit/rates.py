"""The next learning rates, found by running a copy of the schedule: nothing live is touched."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

Rates = list[list[float]]

STEPS = 3


def current_rates(groups: Sequence[Mapping[str, Any]]) -> list[float]:
    """Returns the rate of each parameter group."""
    return [float(group["lr"]) for group in groups]


def next_rates(
    optimizer: Optimizer,
    scheduler: Any = None,
    *,
    groups: Sequence[Mapping[str, Any]] | None = None,
    state: Mapping[str, Any] | None = None,
    base: Sequence[float] | None = None,
) -> Rates:
    """Returns the learning rates of the next three steps: ``[step][group]``.

    Fewer than three where the schedule cannot be run ahead: it wants a metric, or it ends.

    Args:
        optimizer: The live optimizer.
        scheduler: Its schedule; None: the rate stays.
        groups: Parameter groups to use instead of the live ones, such as a file's.
        state: A saved state to put the copy of the schedule into.
        base: The base rates to run at instead, one for each group, with the same schedule.
    """
    groups = optimizer.param_groups if groups is None else groups
    stub = _stub(optimizer, groups)
    now = current_rates(stub.param_groups)
    if scheduler is None:
        return [now if base is None else list(base)] * STEPS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clone = _clone(scheduler, optimizer, stub)
            if state is not None:
                clone.load_state_dict(copy.deepcopy(dict(state)))
            if base is not None:
                _set_base(clone, stub, base)
        except Exception:  # a schedule of any make: what cannot be copied is not simulated
            return [now] if base is None and state is None else []
        rates = [current_rates(stub.param_groups)]
        try:
            while len(rates) < STEPS:
                clone.step()
                rates.append(current_rates(stub.param_groups))
        except Exception:  # it wants a metric, or has come to its end
            pass
    return rates


def _stub(optimizer: Optimizer, groups: Sequence[Mapping[str, Any]]) -> Optimizer:
    """Returns an optimizer without parameters of its own, but with these rates."""
    stub = torch.optim.SGD([nn.Parameter(torch.zeros(0))], lr=0.0)
    stub.defaults = dict(optimizer.defaults)
    stub.param_groups = [
        {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
        | {"params": []}
        for group in groups
    ]
    return stub


def _clone(scheduler: Any, optimizer: Optimizer, stub: Optimizer) -> Any:
    """Copies a schedule so that the copy moves the stub; tensors and modules are not copied."""
    memo: dict[int, Any] = {id(optimizer): stub}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            memo[id(parameter)] = parameter
    own = getattr(scheduler, "optimizer", None)
    if own is not None and own is not optimizer:
        memo[id(own)] = stub  # a wrapper around the optimizer, such as accelerate's
    return copy.deepcopy(scheduler, memo)


def _set_base(scheduler: Any, stub: Optimizer, base: Sequence[float]) -> None:
    for part in [scheduler, *getattr(scheduler, "_schedulers", [])]:
        if hasattr(part, "base_lrs"):
            part.base_lrs = list(base)
    for group, rate in zip(stub.param_groups, base, strict=True):
        was = float(group.get("initial_lr", 0.0))
        group["lr"] = float(group["lr"]) * rate / was if was else rate
        group["initial_lr"] = rate


def progress(scheduler: Any) -> int | None:
    """Returns how many steps a schedule has done, if it counts them."""
    count = getattr(scheduler, "last_epoch", None)
    if count is None:
        schedulers = getattr(scheduler, "_schedulers", None)
        if schedulers:
            return progress(schedulers[0])
    return int(count) if isinstance(count, int | float) else None
