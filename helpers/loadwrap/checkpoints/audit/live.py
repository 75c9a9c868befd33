"""The tensors of a live model, by the names that they have without wrappers.

``state_dict()`` is not called: it runs hooks, and under sharding it communicates.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..unwrap import clean_names, unwrap


@dataclass(frozen=True)
class Live:
    """Parameters and persistent buffers of a model, and which of them are sharded."""

    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    sharded: frozenset[str]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Both, by name."""
        return {**self.parameters, **self.buffers}

    def name_of(self) -> dict[int, str]:
        """Returns {id of a parameter: its name}; a tied one has its first name."""
        names: dict[int, str] = {}
        for name, parameter in self.parameters.items():
            names.setdefault(id(parameter), name)
        return names


def live_tensors(model: nn.Module) -> Live:
    """Returns the tensors of a model, tied ones under each of their names."""
    inner = unwrap(model)
    parameters = dict(inner.named_parameters(remove_duplicate=False))
    buffers = {}
    for path, module in inner.named_modules(remove_duplicate=False):
        unsaved = module._non_persistent_buffers_set
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            if name not in unsaved:
                buffers[f"{path}.{name}" if path else name] = buffer
    names = clean_names([*parameters, *buffers], inner)
    flat = {
        type(part).__name__ for part in model.modules()
    } & {"FullyShardedDataParallel", "FlatParameter"}  # fmt: skip
    sharded = {names[name] for name, tensor in parameters.items() if flat or is_sharded(tensor)} | {
        names[name] for name, tensor in buffers.items() if is_sharded(tensor)
    }
    return Live(
        {names[name]: tensor for name, tensor in parameters.items()},
        {names[name]: tensor for name, tensor in buffers.items()},
        frozenset(sharded),
    )


def is_sharded(tensor: object) -> bool:
    """Whether each rank holds a part of it: a DTensor, or the flat parameter of FSDP."""
    kinds = {kind.__name__ for kind in type(tensor).__mro__}
    if getattr(tensor, "_is_flat_param", False):
        return True
    if "DTensor" not in kinds:
        return "ShardedTensor" in kinds or "FlatParameter" in kinds
    return any(not placement.is_replicate() for placement in tensor.placements)  # type: ignore[attr-defined]


def local_of(tensor: Tensor) -> Tensor:
    """Returns what this rank holds of a DTensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def part_of(saved: Tensor, tensor: Tensor) -> Tensor | None:
    """Returns the part of a whole saved tensor that this rank's shard should hold.

    None where that is not known: FSDP's flat parameters, shards over several dimensions.
    """
    try:
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as place

        placements = tensor.placements  # type: ignore[attr-defined]
        if len(placements) != 1 or type(placements[0]) is not Shard:
            return None
        shape, offset = place(tensor.shape, tensor.device_mesh, placements)  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        return None
    if saved.shape != tensor.shape:
        return None
    return saved[tuple(slice(at, at + size) for at, size in zip(offset, shape, strict=True))]
