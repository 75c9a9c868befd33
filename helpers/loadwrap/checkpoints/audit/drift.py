"""Whether DDP still averages the tensors that the model has."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .findings import CONTRACT, DRIFT, Finding, fault, some
from .live import Live


def check_wrapper(model: nn.Module, live: Live) -> Finding | None:
    """Returns a fault if parameters were replaced or unfrozen after the wrapping."""
    wrapper = next(
        (part for part in model.modules() if isinstance(part, DistributedDataParallel)), None
    )
    if wrapper is None:
        return None
    held = {id(parameter) for parameter in getattr(wrapper, "_module_parameters", [])}
    left_out = set(getattr(wrapper, "parameters_to_ignore", ()))
    inside = {id(parameter) for parameter in wrapper.module.parameters()}
    astray = [
        name
        for name, parameter in live.parameters.items()
        if id(parameter) in inside and id(parameter) not in held and name not in left_out
    ]
    if held and astray:
        return fault(
            DRIFT,
            f"DDP does not know {some(astray)}: replaced or added after the wrapping, so their "
            "gradients are not averaged; wrap last",
        )
    return _check_count(wrapper, left_out)


def _check_count(wrapper: DistributedDataParallel, left_out: set[str]) -> Finding | None:
    """Compares how many tensors DDP averages with how many need it."""
    if getattr(wrapper, "_delay_all_reduce_params", None):
        return None  # these are averaged apart
    try:
        known = int(wrapper._get_ddp_logging_data()["num_parameter_tensors"])
    except (AttributeError, KeyError, RuntimeError):
        return None
    trained = sum(
        parameter.requires_grad and name not in left_out
        for name, parameter in wrapper.module.named_parameters()
    )
    if known < trained:
        return fault(
            DRIFT,
            f"DDP averages {known} tensors, {trained} are trained: some were unfrozen or added "
            "after the wrapping; wrap last",
        )
    lenient = wrapper.find_unused_parameters or getattr(wrapper, "static_graph", False)
    if known > trained and not lenient:
        return fault(
            CONTRACT,
            f"DDP waits for {known} tensors, {trained} are trained: frozen after the wrapping, "
            "the second step raises; freeze first, then wrap",
        )
    return None


def first_difference(prints: list[Mapping[str, int]]) -> tuple[str, list[int]] | None:
    """Returns the first tensor whose fingerprints differ, and the ranks that differ from 0."""
    for name, value in prints[0].items():
        others = [rank for rank, mine in enumerate(prints) if mine.get(name) != value]
        if others:
            return name, others
    for rank, mine in enumerate(prints):
        more = [name for name in mine if name not in prints[0]]
        if more:
            return more[0], [rank]
    return None
