"""What the functions that a pickle would call stand for, built as descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .allowed import ITEMSIZE, dtype_of
from .values import Blob, Global, Refused, StateDict, StorageInfo, TensorInfo, count

KEEP = 64  # bytes of a converted string that are kept: one string may be converted over and over


def sizes(value: Any) -> tuple[int, ...]:
    """A shape or stride. Raises ValueError for anything that no tensor can have."""
    if not isinstance(value, (tuple, list)) or len(value) > 64:
        raise ValueError("no shape")
    for size in value:
        if not isinstance(size, int) or isinstance(size, bool) or not -1 < size < 1 << 62:
            raise ValueError("no shape")
    return tuple(value)


def storage_from(pid: Any) -> Any:
    """The storage that a persistent id of torch.save names; Refused for any other id."""
    if isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage":
        _, kind, key, device, numel = pid[:5]
        name = kind.name if isinstance(kind, Global) else ""
        dtype = dtype_of(name) or "uint8"
        good = isinstance(key, (str, int)) and isinstance(device, str) and isinstance(numel, int)
        if good and len(str(key)[:300]) < 256 and len(device) < 64 and 0 <= numel < 1 << 60:
            return StorageInfo(dtype, str(key), device, numel * ITEMSIZE[dtype])
    if isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module":
        return pid[1]  # before 1.6: a class, with its source beside it
    return Refused("persistent id", (pid,))


def _strided(
    storage: Any, offset: Any, shape: Any, stride: Any, dtype: str | None = None
) -> TensorInfo:
    if not isinstance(storage, StorageInfo) or not isinstance(offset, int):
        raise ValueError("no storage")
    shape, kind = sizes(shape), dtype or storage.dtype
    nbytes = count(shape) * ITEMSIZE[kind]
    return TensorInfo(shape, kind, storage.device, storage.key, nbytes, offset, sizes(stride))


def _dtype(value: Any) -> str:
    name = value.name.removeprefix("torch.") if isinstance(value, Global) else ""
    if name not in ITEMSIZE:
        raise ValueError("no dtype")
    return name


def _plain(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> TensorInfo:
    return _strided(storage, offset, shape, stride)


def _v3(
    storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, dtype: Any, *_: Any
) -> TensorInfo:
    return _strided(storage, offset, shape, stride, _dtype(dtype))


def _named(tensor: Any, kind: str, **changes: Any) -> TensorInfo:
    if not isinstance(tensor, TensorInfo):
        raise ValueError("no tensor")
    fields = {name: getattr(tensor, name) for name in TensorInfo.__slots__}
    return TensorInfo(**{**fields, "kind": kind, **changes})


def _parameter(tensor: Any, *_: Any) -> TensorInfo:
    return _named(tensor, "parameter")


def _sparse(_layout: Any, parts: Any, *_: Any) -> TensorInfo:
    shapes = [part for part in parts if isinstance(part, tuple)]
    held = [part for part in parts if isinstance(part, TensorInfo)]
    nbytes = sum(part.nbytes for part in held)
    values = held[-1]
    return TensorInfo(
        sizes(shapes[-1]), values.dtype, values.device, values.storage, nbytes, kind="sparse"
    )


def _quantized(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> TensorInfo:
    return _named(_strided(storage, offset, shape, stride), "quantized")


def _meta(dtype: Any, shape: Any, *_: Any) -> TensorInfo:
    return TensorInfo(sizes(shape), _dtype(dtype), "meta", kind="placeholder")


def _wrapper(_cls: Any, dtype: Any, shape: Any, _stride: Any, *rest: Any) -> TensorInfo:
    device = rest[2] if len(rest) > 2 and isinstance(rest[2], str) else "cpu"
    return TensorInfo(sizes(shape), _dtype(dtype), device, kind="subclass")


def _device_tensor(tensor: Any, dtype: Any, device: Any, *_: Any) -> TensorInfo:
    if not isinstance(device, str):
        raise ValueError("no device")
    return _named(tensor, "tensor", dtype=_dtype(dtype), device=device[:64])


def _from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    if not isinstance(function, Global) or REBUILD.get(function.name) is _from_type:
        raise ValueError("nested in itself")
    made = reduce(function, args)
    # A subclass that is not torch's own is refused by name; what it wraps is not.
    if isinstance(kind, Global) and not kind.allowed:
        return Refused(kind.name, (made,), state)
    return made


def _ordered(pairs: Any = ()) -> StateDict:
    from .machine import hashable

    made = StateDict()
    for key, value in pairs.items() if isinstance(pairs, dict) else pairs:
        made[hashable(key)] = value
    return made


def _encode(text: Any, *_: Any) -> Any:
    if isinstance(text, str) and len(text) <= KEEP:
        return text.encode("latin-1", "replace")
    return Blob(text.length if isinstance(text, Blob) else len(text))


def _one_shape(shape: Any = ()) -> tuple[int, ...]:
    return sizes(shape)


def _device(kind: Any, index: Any = None) -> str:
    if not isinstance(kind, str) or not isinstance(index, (int, type(None))):
        raise ValueError("no device")
    return kind[:64] if index is None else f"{kind[:64]}:{index % 10_000}"


REBUILD: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _plain,
    "torch._utils._rebuild_tensor_v2": _plain,
    "torch._utils._rebuild_tensor_v3": _v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch.nn.parameter.Parameter": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_wrapper_subclass": _wrapper,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _device_tensor,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.Size": _one_shape,
    "torch.device": _device,
    "torch.serialization._get_layout": lambda name: name,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _ordered,
    "builtins.set": lambda items=(): list(items),
    "builtins.bytearray": lambda *args: args[0] if len(args) == 1 else _encode(*args),
    "builtins.complex": complex,
    "_codecs.encode": _encode,
}


def reduce(function: Any, args: tuple[Any, ...]) -> Any:
    """What calling ``function`` would have made; Refused for what is unknown or makes no sense."""
    name = function.name if isinstance(function, Global) else "something that is no function"
    rebuilt = REBUILD.get(name)
    if rebuilt is not None:
        try:
            return rebuilt(*args)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
            pass
    return Refused(name, args)


def build(made: Any, state: Any) -> Any:
    """An object after BUILD: what its ``__setstate__`` would have been given is kept beside it."""
    if isinstance(made, Refused):
        if made.state is None and isinstance(state, tuple) and made.name in _OLD_TENSORS:
            return _old_tensor(made, state)
        made.state = state
    elif isinstance(made, StateDict) and isinstance(state, dict):
        made.attributes = state
    return made


_OLD_TENSORS = {"torch.Tensor", "torch.FloatTensor", "torch.HalfTensor", "torch.LongTensor"}


def _old_tensor(made: Refused, state: tuple[Any, ...]) -> Any:
    """A tensor of before 0.4: made empty, then given storage, offset, shape and stride."""
    try:
        return _strided(*state[:4])
    except (TypeError, ValueError, KeyError):
        made.state = state
        return made
