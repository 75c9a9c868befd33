"""Hugging Face folders: shards with their index, and what a Trainer leaves beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .checkpoint import Checkpoint
from .textfiles import inside, read_json
from .values import CheckpointError, StateDict
from .words import plural, some

# Which part of a resume a file of the folder holds.
PARTS = (
    (r"(pytorch_model|model|adapter_model|diffusion_pytorch_model).*\.(bin|safetensors)", "model"),
    (r"optimizer.*\.(pt|bin)", "optimizer"),
    (r"scheduler.*\.(pt|bin)", "scheduler"),
    (r"scaler.*\.pt", "scaler"),
    (r"(rng_state|random_states).*\.(pth|pkl|pt)", "rng"),
    (r"trainer_state\.json", "step"),
    (r"sampler.*\.bin|dl_state_dict.*", "sampler"),
)
WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
)

Open = Callable[[Path], Checkpoint]


def read_shards(path: Path, indexes: list[str], names: list[str], opened: Open) -> Checkpoint:
    """The shards of an index as one state dict; missing and torn shards are named."""
    index = next((n for n in indexes if n.endswith(".safetensors.index.json")), indexes[0])
    content = read_json(path / index)
    mapping = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(n, str) for n in mapping.values()):
        raise CheckpointError(
            f"{path / index} is damaged: it is no index of shards (no weight_map).", "damaged"
        )
    found = Checkpoint(path, "hf-sharded", StateDict(), 0, [path / index])
    shards: dict[str, Any] = {}
    missing = []
    for name in dict.fromkeys(mapping.values()):
        place = inside(path, name)
        if place is None or not place.is_file():
            missing.append(name)
            continue
        try:
            shard = opened(place)
        except CheckpointError as error:
            found.problems.append(str(error))
            continue
        shards[name] = shard
        _add(found, shard)
    if missing:
        lost = sum(1 for name in mapping.values() if name in set(missing))
        found.problems.insert(
            0,
            f"{len(missing)} of {plural(len(set(mapping.values())), 'shard')} missing: "
            f"{some(missing)} ({plural(lost, 'tensor')}).",
        )
    absent = []
    for tensor, name in mapping.items():
        if name in shards:
            held = shards[name].tree
            if isinstance(held, dict) and tensor in held:
                found.tree[tensor] = held[tensor]
            else:
                absent.append(tensor)
    if absent:
        found.problems.append(
            f"{plural(len(absent), 'tensor')} that the index names ({some(absent)}) "
            "not in the shard it names: the index belongs to other shards."
        )
    _join_places(found, list(shards.values()), mapping, shards)
    found.contents = contents_of(names)
    _trainer_state(path, found)
    return found


def read_trainer(path: Path, names: list[str], opened: Open) -> Checkpoint | None:
    """A folder with one file of weights under one of the usual names."""
    weights = next((name for name in WEIGHTS if name in names), None)
    if weights is None:
        return None
    shard = opened(path / weights)
    parts = contents_of(names)
    if len(parts) < 2 and "config.json" not in names:
        return shard
    found = Checkpoint(path, "hf-folder", shard.tree)
    _add(found, shard)
    found.locate, found.parts = shard.locate, shard.parts
    found.contents = parts
    found.nbytes = sum((path / name).stat().st_size for held in parts.values() for name in held)
    for name in names:
        if name.endswith((".pt", ".bin", ".pth", ".safetensors")) and name != weights:
            try:
                other = opened(path / name)
                found.problems += [f"{name}: {problem}" for problem in other.problems]
                if name in parts.get("optimizer", ()):
                    found.beside[name] = other.tree
            except CheckpointError as error:
                found.problems.append(str(error))
    _trainer_state(path, found)
    return found


def contents_of(names: list[str]) -> dict[str, list[str]]:
    """File names by the part of a resume that they hold."""
    parts: dict[str, list[str]] = {}
    for pattern, part in PARTS:
        held = [name for name in names if re.fullmatch(pattern, name)]
        if held:
            parts[part] = held
    return parts


def _add(found: Checkpoint, shard: Checkpoint) -> None:
    found.nbytes += shard.nbytes
    found.files += shard.files
    found.problems += [f"{shard.path.name}: {problem}" for problem in shard.problems]
    found.refusals += shard.refusals
    found.opcode = found.opcode or shard.opcode
    found.protocol = max(found.protocol, shard.protocol)


def _join_places(
    found: Checkpoint, shards: list[Checkpoint], mapping: dict[str, str], by_name: dict[str, Any]
) -> None:
    """Makes storages unique over shards, so that two shards' record "0" are not one."""
    for tensor, info in found.tree.items():
        if hasattr(info, "storage"):
            info.storage = f"{mapping[tensor]}/{info.storage}"

    def locate(storage: str) -> Any:
        name, _, key = storage.partition("/")
        return by_name[name].locate(key) if name in by_name else None

    found.locate = locate
    found.parts = lambda: [part for shard in shards for part in shard.parts()]


def _trainer_state(path: Path, found: Checkpoint) -> None:
    state = read_json(path / "trainer_state.json")
    if isinstance(state, dict):
        told = [
            f"{name} {state[name]}"
            for name in ("global_step", "epoch")
            if isinstance(state.get(name), (int, float))
        ]
        if told:
            found.notes.append(f"trainer_state.json: {', '.join(told)}.")
