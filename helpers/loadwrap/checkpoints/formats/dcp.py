"""Folders of torch.distributed.checkpoint, read from their .metadata without unpickling it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .allowed import ITEMSIZE
from .checkpoint import Checkpoint
from .machine import Machine, Malformed
from .values import CheckpointError, Global, Refused, TensorInfo, count
from .words import plural, some

MOST = 64 << 20
HOW = (
    "Load it with torch.distributed.checkpoint.load, or turn it into one file: "
    "python -m torch.distributed.checkpoint.format_utils dcp_to_torch {} OUT.pt"
)


def read_dcp(path: Path, names: list[str]) -> Checkpoint:
    """Names, shapes and files that the .metadata tells. Raises CheckpointError."""
    file = path / ".metadata"
    size = file.stat().st_size
    if size == 0:
        raise CheckpointError(
            f"{path} is a torch.distributed.checkpoint folder whose .metadata is empty: the save "
            "did not finish.",
            "unfinished",
        )
    if size > MOST:
        raise CheckpointError(f"{file} is too large to look through.", "too much")
    try:
        metadata = Machine(file.read_bytes()).run()
    except Malformed as error:
        raise CheckpointError(f"{file} is damaged: {error}.", "damaged") from None
    entries = _attribute(metadata, "state_dict_metadata")
    if not isinstance(entries, dict):
        raise CheckpointError(
            f"{path} holds a .metadata, but not one of torch.distributed.checkpoint."
        )
    found = Checkpoint(path, "dcp", {}, size, [file])
    flat: dict[str, Any] = {}
    for name, entry in entries.items():
        flat[str(name)[:500]] = _tensor(entry)
    planner = _attribute(metadata, "planner_data")
    found.tree = _nested(flat, planner if isinstance(planner, dict) else {})
    _check_files(path, names, _attribute(metadata, "storage_data"), found)
    found.notes.append(HOW.format(path))
    return found


def _attribute(value: Any, name: str) -> Any:
    return value.attributes.get(name) if isinstance(value, Refused) else None


def _tensor(entry: Any) -> Any:
    properties, shape = _attribute(entry, "properties"), _attribute(entry, "size")
    if properties is None or not isinstance(shape, tuple):
        return entry
    state = properties.state if isinstance(properties, Refused) else None
    kind = state[0] if isinstance(state, tuple) and state else _attribute(properties, "dtype")
    dtype = kind.name.removeprefix("torch.") if isinstance(kind, Global) else "?"
    nbytes = count(shape) * ITEMSIZE.get(dtype, 1)
    return TensorInfo(shape, dtype, "sharded", "", nbytes, kind="sharded")


def _nested(flat: dict[str, Any], planner: dict[Any, Any]) -> dict[Any, Any]:
    """The nesting that was flattened for the save; torch keeps each name's path."""
    tree: dict[Any, Any] = {}
    for name, value in flat.items():
        steps = planner.get(name)
        if not isinstance(steps, tuple) or not steps or len(steps) > 50:
            steps = (name,)
        level = tree
        for step in steps[:-1]:
            step = step if isinstance(step, (str, int)) else str(type(step))
            below = level.setdefault(step, {})
            if not isinstance(below, dict):
                below = level[step] = {}
            level = below
        last = steps[-1]
        level[last if isinstance(last, (str, int)) else name] = value
    return tree


def _check_files(path: Path, names: list[str], storage: Any, found: Checkpoint) -> None:
    """Whether every file that the metadata points into is there, and long enough."""
    needed: dict[str, int] = {}
    for place in storage.values() if isinstance(storage, dict) else ():
        name = _attribute(place, "relative_path")
        at, length = _attribute(place, "offset"), _attribute(place, "length")
        if isinstance(name, str) and isinstance(at, int) and isinstance(length, int):
            needed[name[:300]] = max(needed.get(name[:300], 0), at + length)
    missing = [name for name in needed if name not in names]
    short = []
    for name, end in needed.items():
        if name in names:
            size = (path / name).stat().st_size
            found.nbytes += size
            found.files.append(path / name)
            if size < end:
                short.append(name)
    if missing:
        found.problems.append(
            f"{len(missing)} of {plural(len(needed), 'data file')} missing: {some(missing)}; each "
            "rank (or node) wrote its own, so they may be on other machines."
        )
    if short:
        found.problems.append(f"{plural(len(short), 'data file')} cut short: {some(short)}.")
