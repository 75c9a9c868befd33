"""What of a model and its optimizer must be equal on all ranks, by name and in one order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from ..unwrap import clean_names, unwrap
from .fingerprint import digest, finish, words_of

PARAMETERS, OPTIMIZER, BUFFERS, NORMS = (
    "parameters",
    "optimizer state",
    "buffers",
    "batch norm's buffers",
)
_PACKED = 1 << 17  # words: a tensor below 512 KB is digested together with its neighbours
_PACK = 1 << 21


@dataclass
class Part:
    """One kind of state.

    Attributes:
        name: "parameters", "optimizer state", "buffers" or "batch norm's buffers".
        tensors: {name: tensor}, in the model's order.
        sharded: How many were left out because they differ between ranks by design.
        ignored: How many were left out because DDP or the caller ignores them.
    """

    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    sharded: int = 0
    ignored: int = 0

    def names(self) -> list[str]:
        """Returns a line per tensor: its name, dtype and shape."""
        return [f"{name} {kind(tensor)}" for name, tensor in self.tensors.items()]

    def structure(self) -> int:
        """Returns one signed 64-bit integer for all names, dtypes and shapes."""
        return _hash("\n".join(self.names()).encode())

    def content(self) -> int:
        """Returns one signed 64-bit integer for the bits of all tensors."""
        return _hash(repr(_digests(list(self.tensors.values()))).encode())

    def fingerprints(self) -> list[int]:
        """Returns the fingerprint of each tensor, as signed 64-bit integers."""
        tensors = [tensor for tensor in self.tensors.values() if _has_values(tensor)]
        found = iter(_fetched([digest(tensor) for tensor in tensors]))
        return [
            _signed(finish(next(found), tensor)) if _has_values(tensor) else 0
            for tensor in self.tensors.values()
        ]


def collect(
    model: nn.Module, optimizer: Optimizer | None = None, ignore: Sequence[str] = ()
) -> list[Part]:
    """Returns the parts in the order in which a difference matters."""
    sharded = _sharded(model)
    net = unwrap(model)
    patterns = [*ignore, *getattr(net, "_ddp_params_and_buffers_to_ignore", ())]
    parameters, buffers, norms = Part(PARAMETERS), Part(BUFFERS), Part(NORMS)
    named = dict(net.named_parameters())
    clean = clean_names(list(named), net)
    names: dict[int, str] = {}
    for name, parameter in named.items():
        names[id(parameter)] = clean[name]
        _add(parameters, clean[name], parameter, patterns, sharded)
    in_norms = {
        id(buffer)
        for module in net.modules()
        if isinstance(module, _NormBase)
        for buffer in module.buffers(recurse=False)
    }
    named = dict(net.named_buffers())  # type: ignore[arg-type]
    for name, clean_name in clean_names(list(named), net).items():
        part = norms if id(named[name]) in in_norms else buffers
        _add(part, clean_name, named[name], patterns, sharded)
    parts = [parameters, buffers, norms]
    if optimizer is not None:
        parts.insert(1, _of_optimizer(optimizer, names, patterns, sharded))
    return parts


def kind(tensor: Tensor) -> str:
    """Returns dtype and shape in words: ``"float32 [3, 4]"``."""
    if not _has_values(tensor):
        return "not initialised"
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _add(part: Part, name: str, tensor: Tensor, patterns: Sequence[str], sharded: set[int]) -> None:
    if any(fnmatchcase(name, pattern) for pattern in patterns):
        part.ignored += 1
    elif id(tensor) in sharded:
        part.sharded += 1
    elif _is(tensor, "DTensor"):
        if all(placement.is_replicate() for placement in tensor.placements):  # type: ignore[attr-defined]
            part.tensors[name] = tensor.to_local()  # type: ignore[attr-defined]
        else:
            part.sharded += 1
    else:
        part.tensors[name] = tensor.detach() if _has_values(tensor) else tensor


def _of_optimizer(
    optimizer: Optimizer, names: dict[int, str], patterns: Sequence[str], sharded: set[int]
) -> Part:
    part = Part(OPTIMIZER)
    if _is(optimizer, "ZeroRedundancyOptimizer"):
        part.sharded = sum(len(group["params"]) for group in optimizer.param_groups)
        return part
    for number, group in enumerate(optimizer.param_groups):
        # Settings first: another learning rate is the cause of what follows from it.
        settings = {key: value for key, value in group.items() if key not in _NAMING}
        for path, leaf in _leaves(settings, f"param_groups[{number}]"):
            _add(part, path, leaf, patterns, sharded)
    for number, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            name = names.get(id(parameter), f"param_groups[{number}].params[{index}]")
            state = optimizer.state.get(parameter, {})
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                part.ignored += 1
            elif id(parameter) in sharded:
                part.sharded += 1
            else:
                for path, leaf in _leaves(state, name):
                    _add(part, path, leaf, patterns, sharded)
    return part


_NAMING = ("params", "param_names")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors and the plain numbers in nested dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, bool | int | float | complex):
        yield path, torch.tensor(value, dtype=torch.float64 if type(value) is float else None)
    elif isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _leaves(one, f"{path}[{index}]")


def _sharded(model: nn.Module) -> set[int]:
    """Returns the ids of parameters of which FSDP keeps a piece on each rank."""
    return {
        id(parameter)
        for module in model.modules()
        if _is(module, "FullyShardedDataParallel")
        for parameter in module.parameters()
    }


def _is(thing: object, name: str) -> bool:
    """Tells a class that is costly to import by its name."""
    return any(kind.__name__ == name for kind in type(thing).__mro__)


def _has_values(tensor: Tensor) -> bool:
    return not is_lazy(tensor)


@torch.no_grad()
def _digests(tensors: Sequence[Tensor]) -> list[int]:
    """Returns the digests of all tensors, the small ones taken together: a few calls, one wait."""
    found: list[Tensor] = []
    packs: dict[torch.device, list[Tensor]] = {}
    filled: dict[torch.device, int] = {}
    for tensor in tensors:
        if not _has_values(tensor):
            continue
        if (
            tensor.layout is not torch.strided
            or tensor.device.type == "meta"
            or tensor.is_quantized
            or tensor.numel() * tensor.element_size() > 4 * _PACKED
        ):
            found.append(digest(tensor))
            continue
        device = tensor.device
        words = words_of(tensor)
        packs.setdefault(device, []).append(words)
        filled[device] = filled.get(device, 0) + words.numel()
        if filled[device] > _PACK:
            found.append(digest(torch.cat(packs.pop(device))))
            filled[device] = 0
    found += [digest(torch.cat(words)) for words in packs.values()]
    return _fetched(found)


def _fetched(numbers: Sequence[Tensor]) -> list[int]:
    """Returns 0-d tensors as integers, with one transfer from each device."""
    places: dict[torch.device, list[int]] = {}
    for index, number in enumerate(numbers):
        places.setdefault(number.device, []).append(index)
    values = [0] * len(numbers)
    for indices in places.values():
        fetched = torch.stack([numbers[index] for index in indices]).tolist()
        for index, value in zip(indices, fetched, strict=True):
            values[index] = value
    return values


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
