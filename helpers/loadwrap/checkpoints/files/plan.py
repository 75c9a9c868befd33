"""What will be restored, checked before anything is changed: all of it fits, or nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..unwrap import unwrap
from .choose import Choice
from .errors import CheckpointError
from .foreign import epoch_of, part_of, rest_of, step_of
from .kinds import other_kind
from .names import live_state, on_meta, optimizer_names, other_shapes, other_types
from .parts import PARTS

_MOMENTS = (
    "exp_avg",
    "exp_avg_sq",
    "max_exp_avg_sq",
    "momentum_buffer",
    "square_avg",
    "exp_inf",
    "acc_delta",
    "sum",
)


@dataclass
class Plan:
    """States that fit the objects they will be loaded into, and what is to be said about them."""

    states: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    epoch: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    world_size: int | None = None
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)


def make_plan(tree: Any, choice: Choice, given: Mapping[str, Any]) -> Plan:
    """Finds the parts in a file and checks that they fit.

    Raises:
        CheckpointError: The weights or the optimizer's state do not fit: what and why.
    """
    if isinstance(tree, nn.Module) or not isinstance(tree, Mapping):
        raise CheckpointError(f"{choice.path} holds a {type(tree).__name__}, not a dict of states")
    plan = Plan()
    ours = "loadwrap" in tree and "model" in tree
    plan.step = (tree["step"] if ours else step_of(tree)) or 0
    plan.epoch = tree["epoch"] if ours else epoch_of(tree)
    plan.world_size = tree["world_size"] if ours else None
    model = unwrap(given["model"])
    if meta := on_meta(model):
        raise CheckpointError(
            f"{meta[0]} is on the meta device, where loading does nothing: call "
            "model.to_empty(device=…) first"
        )
    if not ours and choice.manifest is None:
        plan.notes.append("no manifest: whether the file is as it was written is not recorded")
    if not ours and step_of(tree) is None:
        plan.notes.append("the step is not recorded: it is taken as 0")
    container, plan.states["model"] = weights(
        tree["model"] if ours else tree, model, plan, "the model"
    )
    plan.extra = dict(tree.get("extra") or {}) if ours else rest_of(tree, container)
    for part in PARTS[1:]:
        state = tree.get(part) if ours else part_of(tree, part)
        thing = given.get(part)
        if thing is None:
            if state is not None:
                plan.unused.append(part)
        elif state is None:
            plan.missing.append(part)
        elif part == "ema" and isinstance(thing, nn.Module):
            plan.states[part] = weights(state, unwrap(thing), plan, "the moving average")[1]
        elif part == "optimizer":
            plan.states[part] = _optimizer(state, tree.get("optimizer_names"), thing, model, plan)
        else:
            plan.states[part] = state
    return plan


def weights(
    state: Mapping[str, Any], net: nn.Module, plan: Plan, what: str
) -> tuple[str, dict[str, Any]]:
    """Returns the entry that holds a module's weights, and these under the module's names."""
    found, container = live_state(state, net), ""
    if found is None:
        from ..keys.explain import explain_keys

        report = explain_keys(state, net)
        if not report.matches and not report.fix:
            raise CheckpointError(f"{what} does not fit the file.\n{report}", "names")
        found, container = report.rename(state), report.container
        if report.prefix or report.added_prefix or report.renamed:
            plan.notes.append(f"names were changed as by: {report.fix}")
    if wrong := other_shapes(found, net):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise CheckpointError(f"{what} has other shapes than the file: {wrong[0]}{more}", "shapes")
    for (then, now), count in other_types(found, net).items():
        words = f"{count} of {what}'s tensors change type: {then} in the file, {now} here"
        plan.notes.append(words)
        plan.inexact.append(words)
    return container, found


def _optimizer(
    state: Any, names: list[list[str]] | None, optimizer: Optimizer, model: nn.Module, plan: Plan
) -> Any:
    """Returns an optimizer's state in the order of its parameters now."""
    groups = state.get("param_groups") if isinstance(state, Mapping) else None
    if not isinstance(groups, list):
        raise CheckpointError("the file's optimizer state has no param_groups", "optimizer")
    if wrong := other_kind(state, optimizer):
        raise CheckpointError(wrong, "optimizer")
    live = [len(group["params"]) for group in optimizer.param_groups]
    saved = [len(group["params"]) for group in groups]
    if live != saved:
        raise CheckpointError(
            f"the optimizer has groups of {live} parameters, the file's of {saved}", "optimizer"
        )
    now = optimizer_names(optimizer, model)
    if names is None and all("param_names" in group for group in groups):
        names = [list(group["param_names"]) for group in groups]
    if names is not None and now is not None and names != now:
        if [set(group) for group in names] != [set(group) for group in now]:
            raise CheckpointError(
                "the optimizer has other parameters than the file's: "
                f"{_first_other(names, now)}", "optimizer"
            )  # fmt: skip
        state = {**state, "param_groups": [
            _reordered(*three) for three in zip(groups, names, now, strict=True)
        ]}  # fmt: skip
        plan.notes.append("the optimizer's parameters come in another order: matched by name")
    _check_moments(state, optimizer, now)
    for number, (group, group_now) in enumerate(
        zip(state["param_groups"], optimizer.param_groups, strict=True)
    ):
        then, asked = (g.get("initial_lr", g.get("lr")) for g in (group, group_now))
        if then is not None and asked is not None and float(then) != float(asked):
            plan.notes.append(
                f"learning rate of group {number}: the file's {float(then):g} is back, not the "
                f"{float(asked):g} that the optimizer was built with; to change it, set it in "
                "optimizer.param_groups (and the scheduler's base_lrs) after loading"
            )
    if not state.get("state"):
        plan.notes.append("the file's optimizer has no state: saved before its first step")
    return state


def _reordered(group: Mapping[str, Any], names: list[str], now: list[str]) -> dict[str, Any]:
    place = {name: index for index, name in enumerate(names)}
    new = {**group, "params": [group["params"][place[name]] for name in now]}
    if "param_names" in group:
        new["param_names"] = list(now)
    return new


def _first_other(names: list[list[str]], now: list[list[str]]) -> str:
    flat, flat_now = ({n for group in groups for n in group} for groups in (names, now))
    if gone := sorted(flat - flat_now):
        return f"{gone[0]} is in the file alone"
    if new := sorted(flat_now - flat):
        return f"{new[0]} is not in the file"
    return "they are grouped otherwise"


def _check_moments(state: Any, optimizer: Optimizer, names: list[list[str]] | None) -> None:
    live = [p for group in optimizer.param_groups for p in group["params"]]
    keys = [key for group in state["param_groups"] for key in group["params"]]
    flat = [name for group in names for name in group] if names else None
    for index, (key, parameter) in enumerate(zip(keys, live, strict=True)):
        for name, value in (state.get("state") or {}).get(key, {}).items():
            if name in _MOMENTS and isinstance(value, Tensor) and value.shape != parameter.shape:
                which = flat[index] if flat else f"parameter {index}"
                raise CheckpointError(
                    f"the optimizer's {name} for {which} has shape {list(value.shape)}, the "
                    f"parameter {list(parameter.shape)}: its parameters come in another order",
                    "optimizer",
                )
