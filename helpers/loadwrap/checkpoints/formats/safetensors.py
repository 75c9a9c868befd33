"""Safetensors: eight bytes of length, a JSON header, raw bytes. Nothing in it can be executed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO

from .allowed import ITEMSIZE
from .checkpoint import Checkpoint, Part
from .values import CheckpointError, StateDict, TensorInfo, count
from .words import percent, size_words

MAX_HEADER = 100_000_000  # the format's own limit
DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}


def looks_like(head: bytes, size: int) -> bool:
    """Whether the first bytes are those of a safetensors file."""
    if len(head) < 9 or head[8:9] != b"{":
        return False
    length = struct.unpack("<Q", head[:8])[0]
    return length <= MAX_HEADER and head[9:10] in (b'"', b"}", b" ", b"\n", b"")


def read_safetensors(path: Path, file: BinaryIO, size: int) -> Checkpoint:
    """Its header, checked: every range within the file. Raises CheckpointError."""
    file.seek(0)
    length = struct.unpack("<Q", file.read(8))[0]
    if 8 + length > size:
        raise CheckpointError(
            f"{path} is cut: it ends at {size_words(size)}, within its header of "
            f"{size_words(length)}. The write or the download was interrupted.",
            "cut",
        )
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is damaged: its safetensors header is no JSON.", "damaged")
    metadata = header.pop("__metadata__", None)
    start = 8 + length
    tree = StateDict()
    parts: dict[str, Part] = {}
    end = 0
    for name, entry in header.items():
        try:
            tensor, begin, stop = _tensor(name, entry)
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"{path} is damaged: its header describes {name[:80]!r} in a way that makes no "
                "sense.",
                "damaged",
            ) from None
        tree[name] = tensor
        parts[name] = Part(path, start + begin, stop - begin, None, name)
        end = max(end, stop)
    if start + end > size:
        raise CheckpointError(
            f"{path} is cut: it has {size_words(size)} of {size_words(start + end)} "
            f"({percent(size, start + end)}). The write or the download was interrupted.",
            "cut",
        )
    found = Checkpoint(path, "safetensors", tree, size, [path])
    if start + end < size:
        found.problems.append(
            f"{size - start - end} bytes at its end belong to no tensor: safetensors refuses it."
        )
    ranges = sorted((part.at, part.at + part.nbytes) for part in parts.values() if part.nbytes)
    if any(first[1] > second[0] for first, second in zip(ranges, ranges[1:], strict=False)):
        found.problems.append("two of its tensors overlap: it was damaged or tampered with.")
    if isinstance(metadata, dict):
        tree.attributes["__metadata__"] = metadata
    found.locate = parts.get
    found.parts = lambda: list(parts.values())
    return found


def _tensor(name: str, entry: Any) -> tuple[TensorInfo, int, int]:
    shape = tuple(entry["shape"])
    begin, stop = entry["data_offsets"]
    numbers = (*shape, begin, stop)
    if not all(isinstance(n, int) and 0 <= n < 1 << 62 for n in numbers) or len(shape) > 64:
        raise ValueError("not a size")
    dtype = DTYPES.get(entry["dtype"], str(entry["dtype"])[:20])
    if stop < begin or (dtype in ITEMSIZE and count(shape) * ITEMSIZE[dtype] != stop - begin):
        raise ValueError("wrong length")
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= size
    return (
        TensorInfo(shape, dtype, "", name, stop - begin, 0, tuple(reversed(stride))),
        begin,
        stop,
    )
