"""One rank's part of an audit: every check against this rank's own objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ..ranks import describe
from ..replicas.fingerprint import fingerprint
from ..unwrap import unwrap, wrapper_paths
from .averages import check_average
from .chance import check_chance
from .drift import check_wrapper
from .findings import (
    BUFFERS,
    CHECKS,
    EMA,
    FILE,
    IGNORED,
    NOT_CHECKED,
    NOT_GIVEN,
    OK,
    OPTIMIZER,
    POSITION,
    RATES,
    RNG,
    SCALER,
    SPREAD,
    TENSORS,
    Finding,
)
from .live import Live, live_tensors, local_of
from .merge import MOMENTS, PARAMETERS, STATISTICS, Local
from .moments import check_optimizer, own_state
from .pairing import Pairing, pair
from .position import Now, check_position, find_sampler, order_of
from .rates import current_rates
from .saved import Saved, open_saved
from .scaling import check_scaler
from .schedule import Asked, check_rates, own_schedule
from .source import check_file, identity
from .weights import check_buffers, check_tensors


@dataclass(frozen=True)
class Given:
    """What the caller passed, and where this rank stands."""

    checkpoint: object
    model: nn.Module
    optimizer: Optimizer | None
    scheduler: Any
    scaler: Any
    ema: Any
    sampler: Any
    loader: Any
    now: Now
    asked_lr: Asked
    ignore: Sequence[str]
    random_state: Tensor
    rank: int
    world: int

    def keep(self, name: str) -> bool:
        """Whether a tensor is to be judged."""
        return not any(fnmatchcase(name, pattern) for pattern in self.ignore)

    def skips(self, check: str) -> bool:
        """Whether a check is not wanted."""
        return any(fnmatchcase(check.lower(), pattern.lower()) for pattern in self.ignore)


def examine(given: Given) -> Local:
    """Runs every check on this rank.

    Raises:
        AuditError: The checkpoint cannot be read.
    """
    saved = open_saved(given.checkpoint)
    live = live_tensors(given.model)
    if given.optimizer is not None:
        saved.optimizer = own_state(saved.optimizers, given.optimizer)
    if given.scheduler is not None:
        saved.scheduler = own_schedule(saved.schedulers, given.scheduler)
    pairing = pair(saved.tree, live.tensors)
    order = order_of(find_sampler(given.sampler, given.loader))
    local = Local(
        prints=_all_prints(given, live),
        sharded=len(live.sharded),
        rates=current_rates(given.optimizer.param_groups) if given.optimizer is not None else [],
        order=order,
        file=identity(saved),
        sends_buffers=_sends_buffers(given.model),
    )
    for check, ask in _questions(given, saved, live, pairing, local).items():
        local.findings[check] = _answer(given, check, ask)
    return local


def _questions(
    given: Given, saved: Saved, live: Live, pairing: Pairing | None, local: Local
) -> dict[str, Callable[[], Finding]]:
    names = (saved.record.get("optimizer") or {}).get("names") or saved.optimizer_names
    optimizer = given.optimizer
    missing = Finding(NOT_GIVEN, "pass optimizer=")
    asked: dict[str, Callable[[], Finding]] = {
        RATES: lambda: (
            missing
            if optimizer is None
            else check_rates(saved, optimizer, given.scheduler, given.asked_lr)
        ),
        TENSORS: lambda: check_tensors(pairing, live, saved.ema, given.keep, _around(given)),
        POSITION: lambda: check_position(saved, local.order, given.now, given.world),
        SPREAD: lambda: check_wrapper(given.model, live) or Finding(OK, "DDP has every parameter"),
        OPTIMIZER: lambda: (
            missing
            if optimizer is None
            else check_optimizer(saved.optimizer, names, optimizer, live, pairing)
        ),
        EMA: lambda: check_average(saved, given.ema, live, pairing),
        BUFFERS: lambda: check_buffers(pairing, live, given.keep),
        SCALER: lambda: check_scaler(saved, given.scaler),
        FILE: lambda: check_file(saved, pairing, given.keep),
        RNG: lambda: check_chance(saved, given.random_state, given.rank, given.world),
    }
    return {check: asked[check] for check in CHECKS}


def _around(given: Given) -> str:
    """Names the wrapper around the model, if the optimizer shows that something was loaded."""
    if given.optimizer is None or not given.optimizer.state:
        return ""
    return (
        ".".join(wrapper_paths(given.model).values())
        if unwrap(given.model) is not given.model
        else ""
    )


def _answer(given: Given, check: str, ask: Callable[[], Finding]) -> Finding:
    if given.skips(check):
        return Finding(IGNORED, "as asked")
    try:
        return ask()
    except Exception as error:  # an object of unknown make: said, and never "ok"
        return Finding(NOT_CHECKED, describe(error))


def _all_prints(given: Given, live: Live) -> dict[str, dict[str, int]]:
    """Returns the fingerprints that have to be equal on all ranks, by what they are of."""
    if given.world == 1:
        return {PARAMETERS: {}, STATISTICS: {}, MOMENTS: {}}
    whole = {name: tensor for name, tensor in live.tensors.items() if name not in live.sharded}
    return {
        PARAMETERS: _prints(
            {name: whole[name] for name in live.parameters if name in whole and given.keep(name)}
        ),
        STATISTICS: _prints({name: whole[name] for name in live.buffers if name in whole}),
        MOMENTS: _moments(given.optimizer, live),
    }


def _prints(tensors: dict[str, Tensor]) -> dict[str, int]:
    found = {}
    for name, tensor in tensors.items():
        try:
            found[name] = fingerprint(local_of(tensor))
        except TypeError:  # no bits to read: lazy, meta or quantized
            continue
    return found


def _moments(optimizer: Optimizer | None, live: Live) -> dict[str, int]:
    if optimizer is None or live.sharded:
        return {}
    if any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__):
        return {}
    names = live.name_of()
    at, tensors = 0, {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            label = names.get(id(parameter), f"parameter {at}")
            at += 1
            state = optimizer.state.get(parameter) or {}
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    tensors[f"{key} of {label}"] = value
    return _prints(tensors)


def _sends_buffers(model: nn.Module) -> bool:
    wrapper = next(
        (part for part in model.modules() if isinstance(part, DistributedDataParallel)), None
    )
    flag = getattr(wrapper, "forward_sync_buffers", None)
    if flag is None:
        flag = getattr(wrapper, "broadcast_buffers", False)
    return bool(flag)
