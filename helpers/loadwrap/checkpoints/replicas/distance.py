"""How far the same tensor lies apart on different ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from ..ranks import Ranks

_PIECE = 1 << 22  # numbers: what is sent at once


@dataclass
class Distance:
    """The difference between the largest and the smallest value that any rank has.

    Attributes:
        largest: Over all elements; NaN if an element is NaN on some ranks only.
        elements: How many elements differ as numbers.
        total: How many elements were compared.
    """

    largest: float = 0.0
    elements: int = 0
    total: int = 0


@torch.no_grad()
def distance(tensors: Iterable[Tensor], ranks: Ranks) -> Distance:
    """Compares tensors (the same shapes on all ranks) element by element. Collective."""
    found = Distance()
    for piece in _pieces(tensors, ranks.device):
        missing = piece.isnan()
        values = piece.masked_fill(missing, 0.0)
        flags = missing.to(values.dtype)
        extremes = torch.stack([values, -values, flags, -flags])
        dist.all_reduce(extremes, op=dist.ReduceOp.MAX, group=ranks.group)
        highest, lowest = extremes[0].double(), -extremes[1].double()
        apart = torch.where(highest == lowest, 0.0, highest - lowest)
        some_nan = extremes[2] != -extremes[3]
        found.total += piece.numel()
        found.elements += int(((apart > 0) | some_nan).sum())
        if bool(some_nan.any()):
            found.largest = math.nan
        elif not math.isnan(found.largest):
            found.largest = max(found.largest, float(apart.max()))
    return found


def _pieces(tensors: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Yields all values as 1-d tensors of at most `_PIECE` floats, small tensors joined."""
    waiting: list[Tensor] = []
    for tensor in tensors:
        for values in _numbers(tensor).split(_PIECE):
            values = values.to(device=device, dtype=_wide(values.dtype))
            room = _PIECE - sum(one.numel() for one in waiting)
            if waiting and (values.dtype != waiting[0].dtype or values.numel() > room):
                yield torch.cat(waiting)
                waiting = []
            if values.numel():
                waiting.append(values)
    if waiting:
        yield torch.cat(waiting)


def _numbers(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Returns a type that every backend can compare and that holds the numbers of `dtype`."""
    narrow = dtype.is_floating_point and dtype.itemsize <= 4
    return torch.float32 if narrow or dtype.itemsize <= 2 else torch.float64
