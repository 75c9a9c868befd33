"""Writes the safetensors format: eight bytes of length, a JSON header, the tensors' bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..formats.safetensors import DTYPES
from ..formats.values import CheckpointError

_CODES = {name: code for code, name in DTYPES.items()}


def write_safetensors(weights: Mapping[str, Any], path: Path) -> None:
    """Writes a state dict of plain CPU tensors. Raises CheckpointError for other content."""
    import torch

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in weights.items():
        code = _CODES.get(str(tensor.dtype).removeprefix("torch."))
        if code is None:
            raise CheckpointError(f"safetensors has no {tensor.dtype}, which {name} is.")
        nbytes = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": code,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + nbytes],
        }
        at += nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in weights.values():
            raw = tensor.contiguous().reshape(-1).view(torch.uint8)
            for piece in raw.split(16 << 20):
                file.write(_memory(piece))


def _memory(piece: Any) -> memoryview:
    """A tensor's own memory, without NumPy, which torch does not need."""
    import ctypes

    if not piece.numel():
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * piece.numel()).from_address(piece.data_ptr())).cast("B")
