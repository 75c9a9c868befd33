"""Sharded tensors in a pickle: of classes that weights_only knows once they are imported."""

from __future__ import annotations

from typing import Any

from .allowed import ITEMSIZE
from .values import Global, Refused, TensorInfo, count

# torch.load takes these after `import torch.distributed.tensor`.
PREFIX = ("torch.distributed.tensor.", "torch.distributed.device_mesh.", "torch.distributed._mesh")


def as_tensor(value: Any) -> TensorInfo | None:
    """A tensor, or the whole tensor of which a DTensor holds one rank's shard; None for others."""
    if isinstance(value, TensorInfo):
        return value
    if isinstance(value, Refused) and value.name.endswith(".DTensor"):
        meta = _find(_find(value, "_spec"), "tensor_meta")
        shape, kind = _find(meta, "shape", 0), _find(meta, "dtype", 2)
        if not isinstance(shape, tuple):
            return None
        dtype = kind.name.removeprefix("torch.") if isinstance(kind, Global) else "?"
        nbytes = count(shape) * ITEMSIZE.get(dtype, 1)
        return TensorInfo(shape, dtype, "sharded", "", nbytes, kind="sharded")
    return None


def _find(value: Any, name: str, position: int | None = None) -> Any:
    """A field of an object that was taken apart, by its name or by its place in a named tuple."""
    if not isinstance(value, Refused):
        return None
    for held in (value.entries, value.attributes):
        if name in held:
            return held[name]
    if isinstance(value.state, tuple) and value.state and isinstance(value.state[0], dict):
        return value.state[0].get(name)
    if position is not None and len(value.args) > position:
        return value.args[position]
    return None
