"""Puts states into objects, in the one order that is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..ranks import Ranks
from ..unwrap import unwrap
from .plain import detached
from .plan import Plan


@torch.no_grad()
def apply(plan: Plan, given: Mapping[str, Any], tree: Any, ranks: Ranks) -> list[str]:
    """Restores every part of a plan.

    The scheduler comes after the optimizer: restored before it, some schedules would start from
    the rates that the optimizer was built with.

    Returns:
        The parts that were restored, in order.
    """
    done: list[str] = []
    for part in ("model", "ema", "optimizer", "scheduler", "scaler", "sampler"):
        if part not in plan.states:
            continue
        thing, state = given[part], plan.states[part]
        if part == "sampler":
            _sampler(thing, state, plan)
        elif part in ("model", "ema") and isinstance(thing, nn.Module):
            unwrap(thing).load_state_dict(state)
        elif part == "scaler" and not state:
            plan.notes.append("the file's scaler was disabled: this one starts at its own scale")
            continue
        else:
            # An optimizer keeps the tensors that it is given: they must not lie in the file.
            thing.load_state_dict(detached(state))
        done.append(part)
    plan.extra = detached(plan.extra)
    return done


def _sampler(sampler: Any, state: Mapping[str, Any], plan: Plan) -> None:
    for name in ("seed", "shuffle", "drop_last"):
        then, now = state.get(name), getattr(sampler, name, None)
        if then is not None and then != now:
            plan.notes.append(f"the sampler had {name}={then}, and has {now}: another order")
    if "state" in state and hasattr(sampler, "load_state_dict"):
        sampler.load_state_dict(detached(state["state"]))
    epoch = plan.epoch if plan.epoch is not None else state.get("epoch")
    if epoch is not None and hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
