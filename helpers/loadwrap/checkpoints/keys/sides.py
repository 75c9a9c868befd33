"""The two sides of a load: what a file holds and what a model asks for, name by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .segments import Path

Shape = tuple[int, ...] | None

# How the buffers of common modules are called, for a side of which only the names are known.
_BUFFERS = {
    "running_mean", "running_var", "num_batches_tracked", "n_averaged", "position_ids",
    "queue", "queue_ptr", "inv_freq", "relative_position_index", "attn_mask",
}  # fmt: skip

_WRAPPER_CLASSES = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "AveragedModel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


@dataclass(frozen=True)
class Entry:
    """One tensor: of a file or of a model."""

    shape: Shape = None
    dtype: str = ""
    buffer: bool = False
    identity: object = None
    """Equal for two entries that are one memory; None if not known."""
    value: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Side:
    """All tensors of one side, by name, in order."""

    entries: dict[str, Entry]
    plain: tuple[str, ...] = ()
    """Names beside them that hold no tensor."""
    unsaved: frozenset[str] = frozenset()
    """Buffers that the model keeps but does not save (`persistent=False`)."""
    wrappers: tuple[tuple[Path, str], ...] = ()
    """Wrappers known from their class: where, and what each calls its inner module."""
    is_module: bool = False
    counts_itself: bool = False
    """A load fills a missing `num_batches_tracked` itself: the file is older or has no version."""

    def same(self, one: str, other: str) -> bool:
        """Says whether two of its tensors are the same memory or hold the same numbers."""
        first, second = self.entries[one], self.entries[other]
        if first.identity is not None and first.identity == second.identity:
            return True
        if not isinstance(first.value, torch.Tensor) or not isinstance(second.value, torch.Tensor):
            return False
        if first.value.is_meta or second.value.is_meta or first.shape != second.shape:
            return False
        return bool(torch.equal(first.value, second.value))

    def aliases(self) -> list[tuple[str, ...]]:
        """Returns the groups of names that are one memory."""
        groups: dict[object, list[str]] = {}
        for name, entry in self.entries.items():
            if entry.identity is not None:
                groups.setdefault(entry.identity, []).append(name)
        return [tuple(group) for group in groups.values() if len(group) > 1]


def is_tensor(value: object) -> bool:
    """Says whether a value is a tensor, or stands for one with a shape and a dtype."""
    if isinstance(value, torch.Tensor):
        return True
    return hasattr(value, "shape") and hasattr(value, "dtype") and not callable(value)


def entry(name: str, value: object) -> Entry:
    """Reads one value: a tensor, something with a shape, a shape, or None for an unknown one."""
    if isinstance(value, torch.Tensor):
        shape = None if _uninitialised(value) else tuple(value.shape)
        buffer = not isinstance(value, torch.nn.Parameter) and _buffer_name(name, value.dtype)
        return Entry(shape, _dtype(value.dtype), buffer, _identity(value, shape), value)
    if is_tensor(value):
        shape = tuple(value.shape)  # type: ignore[attr-defined]
        dtype = value.dtype  # type: ignore[attr-defined]
        storage = getattr(value, "storage", None)
        known = bool(storage) and not callable(storage) and 0 not in shape
        place = (storage, getattr(value, "offset", 0), shape) if known else None
        return Entry(shape, _dtype(dtype), _buffer_name(name, dtype), place, value)
    if isinstance(value, tuple | list) and all(isinstance(size, int) for size in value):
        return Entry(tuple(value), buffer=_buffer_name(name, None))
    return Entry(buffer=_buffer_name(name, None))


def side_of(values: Mapping[str, object], plain: Iterable[str] = ()) -> Side:
    """Reads a mapping of names to tensors or shapes."""
    return Side({name: entry(name, value) for name, value in values.items()}, tuple(plain))


def read_model(model: object) -> Side:
    """Reads a module, or a mapping of its names to tensors, shapes or None.

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(model, torch.nn.Module):
        return _read_module(model)
    if isinstance(model, Mapping):
        return side_of({str(name): value for name, value in model.items()})
    raise TypeError(
        f"the model must be an nn.Module or a mapping of names to tensors or shapes, "
        f"not {type(model).__name__}."
    )


def _read_module(model: torch.nn.Module) -> Side:
    entries = {}
    for name, value in model.state_dict(keep_vars=True).items():
        read = entry(name, value)
        parameter = isinstance(value, torch.nn.Parameter)
        entries[name] = Entry(read.shape, read.dtype, not parameter, read.identity, value)
    wrappers = []
    for name, module in model.named_modules():
        segment = next(
            (
                _WRAPPER_CLASSES[base.__name__]
                for base in type(module).__mro__
                if base.__name__ in _WRAPPER_CLASSES
            ),
            "",
        )
        start = f"{name}.{segment}." if name else f"{segment}."
        if segment and any(key.startswith(start) for key in entries):
            wrappers.append((tuple(name.split(".")) if name else (), segment))
    unsaved = frozenset(name for name, _ in model.named_buffers() if name not in entries)
    return Side(entries, unsaved=unsaved, wrappers=tuple(wrappers), is_module=True)


def _dtype(dtype: object) -> str:
    return str(dtype).removeprefix("torch.") if dtype is not None else ""


def _buffer_name(name: str, dtype: object) -> bool:
    if name.rpartition(".")[2] in _BUFFERS:
        return True
    return isinstance(dtype, torch.dtype) and not (dtype.is_floating_point or dtype.is_complex)


def _uninitialised(value: torch.Tensor) -> bool:
    return bool(torch.nn.parameter.is_lazy(value))


def _identity(value: torch.Tensor, shape: Shape) -> object:
    if shape is None or 0 in shape:
        return None
    try:
        storage = value.untyped_storage()
        return (storage._cdata, value.storage_offset(), shape, value.stride())
    except (RuntimeError, NotImplementedError, AttributeError):
        return id(value)  # a tensor without a storage of its own, such as a DTensor
