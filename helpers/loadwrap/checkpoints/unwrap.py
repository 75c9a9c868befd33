"""The model inside its wrappers, and the names that its tensors have there."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

# Wrappers whose modules cannot be imported for the asking: known by the name of their class.
_INSIDE = {
    "OptimizedModule": "_orig_mod",  # torch.compile
    "DeepSpeedEngine": "module",
    "_FabricModule": "_forward_module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


def unwrap(model: nn.Module) -> nn.Module:
    """Returns the user's own model: DDP, torch.compile and the like taken off, in any order.

    A model that has a child called ``module`` keeps it: wrappers are known by their class.

    Example:
        >>> from torch import nn
        >>> net = nn.Linear(2, 2)
        >>> unwrap(nn.DataParallel(nn.DataParallel(net))) is net
        True
    """
    while (inside := _inside(model)) is not None:
        model = getattr(model, inside)
    return model


def wrapper_paths(model: nn.Module) -> dict[str, str]:
    """Returns the names that wrappers of parts of a model add: {path of wrapper: its segment}."""
    found = ((path, _inside(part)) for path, part in model.named_modules(remove_duplicate=False))
    return {path: inside for path, inside in found if inside is not None}


def clean_names(names: list[str], model: nn.Module) -> dict[str, str]:
    """Returns {name in `model`: the same name without the segments of wrappers in its middle}."""
    paths = wrapper_paths(model)
    if not paths:
        return {name: name for name in names}
    cleaned = {}
    for name in names:
        kept: list[str] = []
        path: list[str] = []
        for segment in name.split("."):
            if paths.get(".".join(path)) != segment:
                kept.append(segment)
            path.append(segment)
        cleaned[name] = ".".join(kept)
    return cleaned


def _inside(model: nn.Module) -> str | None:
    if isinstance(model, DistributedDataParallel | DataParallel):
        return "module"
    for kind in type(model).__mro__:
        attribute = _INSIDE.get(kind.__name__)
        if attribute is not None and isinstance(getattr(model, attribute, None), nn.Module):
            return attribute
    return None
