"""Compares tensors bit by bit, on the live tensor's device."""

from __future__ import annotations

import torch
from torch import Tensor

from .live import local_of

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def equal(live: Tensor, saved: Tensor) -> bool:
    """Whether a live tensor holds the saved one's bits, given its own dtype and device."""
    live = local_of(live)
    if live.shape != saved.shape:
        return False
    if live.layout != torch.strided or saved.layout != torch.strided:
        return _dense(live, saved)
    live = live.detach()
    saved = saved.detach().to(live.device, live.dtype)
    word = _WORDS.get(live.element_size())
    if word is None or live.is_quantized or live.is_conj() or live.is_neg():
        return _dense(live, saved)
    return torch.equal(_flat(live).view(word), _flat(saved).view(word))


@torch.no_grad()
def difference(live: Tensor, saved: Tensor) -> float:
    """Returns the largest difference; infinity where the shapes differ."""
    live = local_of(live)
    if live.shape != saved.shape:
        return float("inf")
    if live.numel() == 0:
        return 0.0
    gap = live.detach().to(torch.float64) - saved.detach().to(live.device).to(torch.float64)
    return gap.abs().max().item()


def _flat(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1)


def _dense(live: Tensor, saved: Tensor) -> bool:
    try:
        one, two = live.detach().to_dense(), saved.detach().to_dense()
        return torch.equal(one, two.to(one.device, one.dtype))
    except (RuntimeError, NotImplementedError):
        return torch.equal(live.detach().resolve_conj(), saved.detach().to(live.device))
