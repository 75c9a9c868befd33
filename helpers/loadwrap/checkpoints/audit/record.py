"""What ``save_checkpoint`` keeps about the state it saves, so that a resume can be audited."""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..replicas.fingerprint import fingerprint
from .averages import average_tensors, counter_of
from .live import Live, is_sharded, live_tensors, local_of
from .position import describe, find_sampler, order_of
from .rates import next_rates, progress


def take_record(
    *,
    model: nn.Module | None = None,
    optimizer: Optimizer | None = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    sampler: Any = None,
    loader: Any = None,
    step: int | None = None,
    epoch: int | None = None,
) -> dict[str, Any]:
    """Returns a record of the live objects: plain numbers, strings, lists and dicts.

    It changes nothing, draws no random number and talks to no other rank. It costs one reading
    of the weights (their fingerprints).

    Args:
        model: The model, inside or outside DDP, torch.compile or both.
        optimizer: Its parameters' names are recorded in its order.
        scheduler: The next three learning rates are recorded.
        scaler: Its scale.
        ema: The moving average: its counter.
        sampler: Its epoch, seed and share.
        loader: Gives the sampler, if none was given, and the batches of an epoch.
        step: Optimizer steps done.
        epoch: Epoch of the next step.

    Returns:
        A dict that JSON can hold. What was not given is None.

    Example:
        >>> import torch
        >>> net = torch.nn.Linear(2, 1)
        >>> record = take_record(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
        >>> record["learning_rates"], record["optimizer"]["names"]
        ([[0.1], [0.1], [0.1]], ['weight', 'bias'])
    """
    live = live_tensors(model) if model is not None else None
    record = {
        "version": 1,
        "step": step,
        "epoch": epoch,
        "learning_rates": next_rates(optimizer, scheduler) if optimizer is not None else None,
        "scheduler": _scheduler(scheduler),
        "tensors": _tensors(live) if live is not None else None,
        "optimizer": _optimizer(optimizer, live) if optimizer is not None else None,
        "ema": _average(ema),
        "scaler": _plain(scaler.state_dict()) if scaler is not None else None,
        "sampler": describe(order_of(find_sampler(sampler, loader))),
        "batches": _length(loader),
        "training": model.training if model is not None else None,
    }
    return json.loads(json.dumps(record, default=str))


def _scheduler(scheduler: Any) -> dict[str, Any] | None:
    if scheduler is None:
        return None
    return {"class": type(scheduler).__name__, "last_epoch": progress(scheduler)}


def _tensors(live: Live) -> dict[str, Any]:
    entries = {}
    for name, tensor in live.tensors.items():
        entries[name] = {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "buffer": name in live.buffers,
            "fingerprint": None if name in live.sharded else _print_of(tensor),
        }
    return entries


def _print_of(tensor: Tensor) -> int | None:
    try:
        return fingerprint(local_of(tensor))
    except TypeError:  # no bits to read: lazy, meta, quantized
        return None


def _optimizer(optimizer: Optimizer, live: Live | None) -> dict[str, Any]:
    known = live.name_of() if live is not None else {}
    ours = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = [known.get(id(parameter)) for parameter in ours]
    return {
        "class": type(optimizer).__name__,
        "names": names if all(names) and len(set(names)) == len(names) else None,
        "groups": [len(group["params"]) for group in optimizer.param_groups],
        "with_state": sum(bool(optimizer.state.get(parameter)) for parameter in ours),
        "sharded": any(is_sharded(parameter) for parameter in ours),
    }


def _average(ema: Any) -> dict[str, Any] | None:
    if ema is None:
        return None
    return {
        "class": type(ema).__name__,
        "counter": counter_of(ema),
        "tensors": len(average_tensors(ema)),
    }


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if isinstance(value, int | float | str)}


def _length(loader: Any) -> int | None:
    try:
        return len(loader) if loader is not None else None
    except TypeError:  # an iterable data set does not know
        return None
