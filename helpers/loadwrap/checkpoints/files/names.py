"""A module's state by the names that the user's own model gives its tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from ..unwrap import clean_names, unwrap


def named_state(module: nn.Module) -> dict[str, Any]:
    """Returns the state dict without any wrapper's segment in its names, also in their middle."""
    net = unwrap(module)
    state = net.state_dict()
    clean = clean_names(list(state), net)
    if all(name == cleaned for name, cleaned in clean.items()):
        return state
    renamed = OrderedDict((clean[name], value) for name, value in state.items())
    metadata = getattr(state, "_metadata", None)
    if metadata is not None:
        paths = clean_names(list(metadata), net)
        renamed._metadata = {paths[path]: value for path, value in metadata.items()}  # type: ignore[attr-defined]
    return renamed


def live_state(state: Mapping[str, Any], net: nn.Module) -> dict[str, Any] | None:
    """Returns a saved state under the names of an unwrapped module, or None if they do not fit.

    The names are the same set, or the same but for wrappers in the middle.
    """
    clean = clean_names(list(net.state_dict()), net)
    if len(set(clean.values())) != len(clean) or state.keys() != set(clean.values()):
        return None
    renamed = OrderedDict((name, state[cleaned]) for name, cleaned in clean.items())
    metadata = getattr(state, "_metadata", None)
    if metadata is not None:
        paths = clean_names([path for path, _ in net.named_modules(remove_duplicate=False)], net)
        renamed._metadata = {  # type: ignore[attr-defined]
            path: metadata[cleaned] for path, cleaned in paths.items() if cleaned in metadata
        }
    return renamed


def other_shapes(state: Mapping[str, Any], net: nn.Module) -> list[str]:
    """Returns a line for each tensor whose shape is another one in the module."""
    lines = []
    for name, live in net.state_dict().items():
        saved = state.get(name)
        if not isinstance(live, Tensor) or not isinstance(saved, Tensor) or is_lazy(live):
            continue
        if live.shape != saved.shape:
            lines.append(f"{name}: {list(saved.shape)} in the file, {list(live.shape)} here")
    return lines


def other_types(state: Mapping[str, Any], net: nn.Module) -> dict[tuple[str, str], int]:
    """Returns how many tensors change their type: {(in the file, here): number}."""
    counts: dict[tuple[str, str], int] = {}
    for name, live in net.state_dict().items():
        saved = state.get(name)
        if isinstance(live, Tensor) and isinstance(saved, Tensor) and live.dtype != saved.dtype:
            pair = (_short(saved), _short(live))
            counts[pair] = counts.get(pair, 0) + 1
    return counts


def on_meta(net: nn.Module) -> list[str]:
    """Returns the tensors of a module that have no memory to load into."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return [name for name, tensor in tensors.items() if tensor.device.type == "meta"]


def optimizer_names(optimizer: Optimizer, model: nn.Module) -> list[list[str]] | None:
    """Returns the model's names of each group's parameters, or None if it has not all of them."""
    net = unwrap(model)
    named = dict(net.named_parameters())
    clean = clean_names(list(named), net)
    names = {id(parameter): clean[name] for name, parameter in named.items()}
    groups = [[names.get(id(p)) for p in group["params"]] for group in optimizer.param_groups]
    if any(name is None for group in groups for name in group):
        return None
    return groups  # type: ignore[return-value]


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
