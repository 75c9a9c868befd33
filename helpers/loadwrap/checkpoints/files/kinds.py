"""Whether an optimizer's state in a file is one that this class of optimizer can go on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

# State without which step() fails, by class; a subclass is looked up by its nearest parent.
_NEEDED: dict[str, frozenset[str]] = {
    "NAdam": frozenset({"exp_avg", "exp_avg_sq", "mu_product"}),
    "Adamax": frozenset({"exp_avg", "exp_inf"}),
    "Adam": frozenset({"exp_avg", "exp_avg_sq"}),
    "AdamW": frozenset({"exp_avg", "exp_avg_sq"}),
    "RAdam": frozenset({"exp_avg", "exp_avg_sq"}),
    "Adadelta": frozenset({"square_avg", "acc_delta"}),
    "RMSprop": frozenset({"square_avg"}),
    "Adagrad": frozenset({"sum"}),
    "ASGD": frozenset({"eta", "mu", "ax"}),
    "Rprop": frozenset({"prev", "step_size"}),
}
# How a class is told from what it keeps: the first whose marks are all there.
_MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("NAdam", ("momentum_decay", "betas")),
    ("Adamax", ("exp_inf", "betas")),
    ("Adam", ("exp_avg", "betas")),
    ("Adam", ("betas",)),
    ("Adadelta", ("rho",)),
    ("RMSprop", ("alpha", "centered")),
    ("ASGD", ("lambd", "t0")),
    ("Adagrad", ("lr_decay",)),
    ("Rprop", ("etas",)),
    ("SGD", ("momentum_buffer", "momentum", "dampening")),
    ("SGD", ("momentum", "dampening")),
)
# Choices of an implementation, and values that only building an optimizer needs.
_OPTIONAL = frozenset({
    "lr", "initial_lr", "param_names", "foreach", "fused", "capturable", "differentiable",
    "maximize", "nesterov", "amsgrad", "decoupled_weight_decay", "initial_accumulator_value",
})  # fmt: skip


def other_kind(state: Mapping[str, Any], optimizer: Optimizer) -> str:
    """Returns, in words, why a state is of another class of optimizer; nothing if it is not.

    Hyperparameters that the class itself fills in for files of older versions are not missed.

    Args:
        state: The optimizer's state dict in the file.
        optimizer: The live optimizer.
    """
    inner = getattr(optimizer, "optim", None)  # of a ZeroRedundancyOptimizer
    optimizer = inner if isinstance(inner, Optimizer) else optimizer
    groups = [group for group in state.get("param_groups") or [] if isinstance(group, Mapping)]
    each = state.get("state")
    states = [one for one in each.values() if isinstance(one, Mapping) and one] if (
        isinstance(each, Mapping)) else []  # fmt: skip
    if not groups:
        return ""
    kept = set.intersection(*(set(group) for group in _filled(groups, optimizer)))
    missing = [key for key in optimizer.defaults if key not in kept | _OPTIONAL]
    if states:
        found: set[str] = set.union(*(set(one) for one in states))
        missing += sorted(_needed(optimizer) - found)
    if not missing:
        return ""
    has = {*groups[0], *(key for one in states for key in one)}
    for name, marks in _MARKS:
        if has.issuperset(marks):
            whose = f"{name}'s ({', '.join(marks)})"
            break
    else:
        told = sorted(str(key) for key in has - _OPTIONAL - {"params", "weight_decay"})
        whose = f"another one's ({', '.join(told[:4])})"
    return (
        f"the file's optimizer is {whose}, this one is {type(optimizer).__name__}, for which the "
        f"file has no {', '.join(map(str, missing[:4]))}"
    )


def _filled(groups: list[Mapping[str, Any]], optimizer: Optimizer) -> list[dict[str, Any]]:
    """Returns the groups with what the optimizer's class adds when it loads them."""
    bare = [{key: value for key, value in group.items() if key != "params"} | {"params": []}
            for group in groups]  # fmt: skip
    try:
        probe = object.__new__(type(optimizer))
        probe.__dict__.update(optimizer.__dict__)
        probe.defaults = dict(optimizer.defaults)
        probe.__setstate__({"state": {}, "param_groups": bare})
        return [dict(group) for group in probe.param_groups]
    except Exception:  # a class of any make
        return bare


def _needed(optimizer: Optimizer) -> frozenset[str]:
    for kind in type(optimizer).__mro__:
        if kind.__module__.startswith("torch.optim") and kind.__name__ in _NEEDED:
            return _NEEDED[kind.__name__]
    return frozenset()
