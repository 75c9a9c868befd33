"""Makes of a state what ``torch.load(weights_only=True)`` takes back, or says why it cannot.

A checkpoint that only a full unpickling can read is a file that runs code, and one day nobody
has the class any more. It is refused while its writer is still there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_ADVICE = {
    "Namespace": "store vars(args)",
    "ndarray": "store torch.from_numpy(array)",
    "Generator": "store generator.get_state()",
}


def plain(value: Any, where: str) -> Any:
    """Returns a copy of nested dicts and lists with plain leaves; tensors are not copied.

    Subclasses of dict, list, tuple, str and numbers come back as those themselves, NumPy's
    scalars as Python's, paths as str.

    Args:
        value: What is to be saved.
        where: Its place in words, for the error: ``"extra"``.

    Raises:
        TypeError: Something in it could not be read back safely: a sentence says what and where.
    """
    if value is None or isinstance(value, torch.dtype | torch.device | bytes):
        return value
    if isinstance(value, Tensor):
        return _tensor(value, where)
    kinds: tuple[type[Any], ...] = (bool, int, float, complex, str)
    for kind in kinds:
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    if isinstance(value, Mapping):
        return _mapping(value, where)
    if isinstance(value, list | tuple | deque):
        parts = [plain(part, f"{where}[{index}]") for index, part in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, set | frozenset):
        return {plain(part, where) for part in value}
    if isinstance(value, PurePath):
        return str(value)
    kind_name = type(value).__name__
    if type(value).__module__.partition(".")[0] == "numpy" and kind_name != "ndarray":
        if hasattr(value, "item"):
            return plain(value.item(), where)
    if isinstance(value, nn.Module):
        advice = "store its state_dict()"
    else:
        advice = _ADVICE.get(kind_name, "store tensors, numbers, strings, lists and dicts of them")
    raise TypeError(
        f"{where} is a {type(value).__module__}.{kind_name}, which torch.load would refuse to "
        f"read back (weights_only): {advice}"
    )


def _tensor(tensor: Tensor, where: str) -> Tensor:
    if is_lazy(tensor):
        raise TypeError(f"{where} is not initialised yet: run one forward before the first save")
    if any(kind.__name__ == "DTensor" for kind in type(tensor).__mro__):
        raise TypeError(
            f"{where} is sharded (DTensor): each rank has a piece of it; save it with "
            "torch.distributed.checkpoint"
        )
    if tensor.device.type == "meta":
        raise TypeError(f"{where} is on the meta device: it has no values to save")
    if type(tensor) not in (Tensor, nn.Parameter) and not isinstance(tensor, nn.Parameter):
        tensor = tensor.as_subclass(Tensor)
    return tensor.detach()


def _mapping(value: Mapping[Any, Any], where: str) -> dict[Any, Any]:
    copy: dict[Any, Any] = OrderedDict() if isinstance(value, OrderedDict) else {}
    for key, part in value.items():
        if not isinstance(key, str | int | float | tuple | None):
            raise TypeError(f"{where} has a key that is a {type(key).__name__}: use str or int")
        key = plain(key, where)
        copy[key] = plain(part, f"{where}[{key!r}]")
    metadata = getattr(value, "_metadata", None)  # of a model's state dict: versions of modules
    if metadata is not None:
        copy._metadata = plain(metadata, where)  # type: ignore[attr-defined]
    return copy


def detached(value: Any) -> Any:
    """Returns a copy of nested dicts and lists whose tensors share nothing with the original."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return type(value)((key, detached(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return type(value)(detached(part) for part in value)
    return value
