"""The four resumes that lesson 02 gives without their names. Reading on answers the exercise.

Each function is an order for `launch/train.py`: it gets a rank's own, freshly built objects and
the path of a checkpoint, and returns the wrapped model.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

TRUTH = {
    "A": "partly loaded",
    "B": "rank 0 only",
    "C": "buffers missing",
    "D": "nothing loaded",
}


def case_a(model: Module, optimizer: object, scheduler: object, path: str) -> Module:
    """Loads all but the first layer, whose name has changed."""
    weights = _weights(path)
    weights["stem.weight"] = weights.pop("conv1.weight")
    model.load_state_dict(weights, strict=False)
    return DistributedDataParallel(model)


def case_b(model: Module, optimizer: object, scheduler: object, path: str) -> Module:
    """Wraps, then loads on rank 0."""
    ddp = DistributedDataParallel(model)
    if dist.get_rank() == 0:
        ddp.module.load_state_dict(_weights(path))
    return ddp


def case_c(model: Module, optimizer: object, scheduler: object, path: str) -> Module:
    """Loads the parameters, and no buffer."""
    for name, parameter in model.named_parameters():
        parameter.data.copy_(_weights(path)[name])
    return DistributedDataParallel(model)


def case_d(model: Module, optimizer: object, scheduler: object, path: str) -> Module:
    """Loads nothing: the model is wrapped, and the file's names have no ``module.``."""
    ddp = DistributedDataParallel(model)
    ddp.load_state_dict(_weights(path), strict=False)
    return ddp


def _weights(path: str) -> dict[str, Any]:
    weights: dict[str, Any] = torch.load(path, map_location="cpu")["model"]
    return weights
