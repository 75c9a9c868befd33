"""The random states of one rank: Python's, NumPy's, torch's on the CPU and on its GPU."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from torch import Tensor


def capture() -> dict[str, Any]:
    """Returns this rank's random states, as plain values and tensors.

    NumPy's is taken only where NumPy has been imported, a GPU's only where it has been used.
    """
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, key, *rest = numpy.random.get_state()
        states["numpy"] = [name, torch.tensor(key.tolist(), dtype=torch.int64), *rest]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore(states: dict[str, Any]) -> list[str]:
    """Puts random states back, and returns what could not be, in words."""
    left: list[str] = []
    random.setstate(_tuples(states["python"]))
    torch.set_rng_state(states["torch"].clone())
    if "numpy" in states:
        import numpy

        name, key, *rest = states["numpy"]
        numpy.random.set_state((name, key.numpy().astype(numpy.uint32), *rest))
    if "cuda" in states:
        if torch.cuda.is_available():
            torch.cuda.set_rng_state(states["cuda"].clone())
        else:
            left.append("the file has the random state of a GPU, and this rank has none")
    elif torch.cuda.is_available() and torch.cuda.is_initialized():
        left.append("the file has no random state of a GPU")
    return left


def loader_state(loader: Any) -> Tensor | None:
    """Returns the state of a loader's own generator, or None."""
    generator = getattr(loader, "generator", None)
    return generator.get_state() if isinstance(generator, torch.Generator) else None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list | tuple) else value
