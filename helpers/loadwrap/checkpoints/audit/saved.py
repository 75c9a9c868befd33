"""Finds the parts of a checkpoint: ours by its manifest, anybody's by what they look like."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..files.choose import choose, seen
from ..files.errors import CheckpointError
from ..files.manifest import NEXT, SUFFIX
from ..keys.container import candidates
from .reading import AuditError, read

_AVERAGES = ("model_ema", "ema_state_dict", "state_dict_ema", "ema", "params_ema", "ema_model")
AVERAGE = 3  # the rank of a candidate that is a moving average
_MOST_LISTED = 16
_TRIES = 20
_PAUSE_S = 0.1
_STEPS = (
    ("step", "global_step", "iteration", "iter_num", "iter", "steps", "n_iter", "current_step")
)  # fmt: skip
_EPOCHS = ("epoch", "EPOCHS_RUN", "epochs_run", "current_epoch")
_WORLDS = ("world_size", "dp_world_size", "n_ranks")


@dataclass
class Saved:
    """What a checkpoint holds, as far as it was found."""

    name: str
    tree: Any
    path: Path | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    optimizers: list[Mapping[str, Any]] = field(default_factory=list)
    schedulers: list[Mapping[str, Any]] = field(default_factory=list)
    optimizer: Mapping[str, Any] | None = None
    scheduler: Mapping[str, Any] | None = None
    scaler: Mapping[str, Any] | None = None
    ema: Any = None
    ema_name: str = ""
    step: int | None = None
    epoch: int | None = None
    world_size: int | None = None
    random_restored: bool = True
    """Whether the random state should be the saved one already, as far as is known."""

    @property
    def optimizer_names(self) -> list[str] | None:
        """The names that ``save_checkpoint`` keeps of the optimizer's parameters."""
        names = self.tree.get("optimizer_names")
        flat = [name for part in names for name in ([part] if isinstance(part, str) else part)] if (
            isinstance(names, list)) else []  # fmt: skip
        return flat or None

    @property
    def record(self) -> Mapping[str, Any]:
        """What `take_record` kept; empty for a file that is not ours."""
        return self.manifest.get("record") or {}


def open_saved(checkpoint: object) -> Saved:
    """Reads a checkpoint: a path, a folder, what ``load_checkpoint`` returned, or a dict.

    Raises:
        AuditError: It cannot be read.
    """
    if isinstance(checkpoint, Mapping):
        saved = Saved("the checkpoint", checkpoint)
    else:
        place = getattr(checkpoint, "path", checkpoint)
        if not isinstance(place, str | Path):
            raise AuditError(
                f"the checkpoint is a {type(checkpoint).__name__}: give its path, the dict that "
                "torch.load returned, or what load_checkpoint returned"
            )
        saved = _read_whole(Path(place))
        ours = isinstance(saved.tree, Mapping) and "loadwrap" in saved.tree
        saved.random_restored = getattr(checkpoint, "rng_restored", not ours)
    _find_parts(saved)
    return saved


def _read_whole(place: Path) -> Saved:
    """Reads a file and its manifest, once more if a writer replaced one of them meanwhile.

    Raises:
        AuditError: It cannot be read.
    """
    last: tuple[int, ...] | None = None
    saved: Saved | None = None
    for _ in range(_TRIES):
        path = _newest(place) if place.is_dir() else place
        before = seen(path)
        try:
            tree = read(path)
        except AuditError:
            if seen(path) == before:
                raise
            continue
        saved = Saved(path.name, tree, path, manifest_of(path), before[-1] if before else 0)
        if before == seen(path) and (before == last or _belong(saved)):
            break
        last = before
        time.sleep(_PAUSE_S)
    if saved is None:
        raise AuditError(f"{place}: its files are replaced or removed while they are read")
    return saved


def _belong(saved: Saved) -> bool:
    """Whether a manifest, if there is one, is this file's."""
    told, tree = saved.manifest, saved.tree
    step = tree.get("step") if isinstance(tree, Mapping) else None
    return not told or (
        told.get("size") == saved.size and (step is None or told.get("step") in (None, step))
    )


def manifest_of(path: Path) -> dict[str, Any]:
    """Returns the manifest beside a checkpoint, or an empty dict.

    It has a name of its own for a moment while the file is replaced; the size tells which is meant.
    """
    found = [_manifest_at(Path(f"{path}{suffix}")) for suffix in (SUFFIX, NEXT)]
    before = seen(path)
    size = before[-1] if before else None
    return next((one for one in reversed(found) if one and one.get("size") == size), found[0])


def _manifest_at(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _newest(folder: Path) -> Path:
    """Returns the checkpoint that ``load_checkpoint`` would take from a folder."""
    try:
        return choose(folder).path
    except CheckpointError as error:
        raise AuditError(f"{error}; give the file that was loaded") from error


def _find_parts(saved: Saved) -> None:
    tree = saved.tree
    if isinstance(tree, nn.Module):
        raise AuditError(f"{saved.name} is a whole module: save its state_dict()")
    if not isinstance(tree, Mapping):
        raise AuditError(f"{saved.name} holds a {type(tree).__name__}, not a dict")
    manifest = saved.manifest
    parts = list(_values(tree))
    saved.optimizers = [part for part in parts if _is_optimizer(part)]
    saved.schedulers = [part for part in parts if _is_scheduler(part)]
    saved.optimizer = next(iter(saved.optimizers), None)
    saved.scheduler = next(iter(saved.schedulers), None)
    saved.scaler = next((part for part in parts if _is_scaler(part)), None)
    if saved.scaler is None and "scaler" in tree and tree["scaler"] == {}:
        saved.scaler = {}  # of a disabled scaler
    for key in _AVERAGES:
        if isinstance(tree.get(key), Mapping):
            saved.ema, saved.ema_name = tree[key], key
            break
    else:
        nested = (one for one in candidates(tree) if one.rank >= AVERAGE and one.where)
        if (found := next(nested, None)) is not None:
            saved.ema, saved.ema_name = found.get(tree), found.name
    saved.step = _whole(tree, _STEPS, manifest.get("step"))
    saved.epoch = _whole(tree, _EPOCHS, manifest.get("epoch"))
    saved.world_size = _whole(tree, _WORLDS, manifest.get("world_size"))


def _values(tree: Mapping[str, Any], deeper: int = 2) -> Iterator[Mapping[str, Any]]:
    """Yields the parts of a checkpoint, the upper ones first; never inside a part or weights."""
    below = []
    for value in tree.values():
        several = isinstance(value, list | tuple) and len(value) <= _MOST_LISTED
        for part in value if several else [value]:
            if isinstance(part, Mapping):
                yield part
                known = _is_optimizer(part) or _is_scheduler(part) or _is_scaler(part)
                if not known and not any(isinstance(leaf, Tensor) for leaf in part.values()):
                    below.append(part)
    if deeper:
        for part in below:
            yield from _values(part, deeper - 1)


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, Mapping) and "state" in value and "param_groups" in value


def _is_scheduler(value: Any) -> bool:
    if not isinstance(value, Mapping) or _is_optimizer(value):
        return False
    marks = {"base_lrs", "_step_count", "_last_lr", "num_bad_epochs", "_schedulers"}
    return bool(marks & value.keys()) and ("last_epoch" in value or "_schedulers" in value)


def _is_scaler(value: Any) -> bool:
    return isinstance(value, Mapping) and {"scale", "growth_factor"} <= value.keys()


def _whole(tree: Mapping[str, Any], names: tuple[str, ...], told: Any) -> int | None:
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    places = [tree, *(tree[key] for key in ("meta", "extra", "extra_state") if key in tree)]
    for place in places:
        if not isinstance(place, Mapping):
            continue
        for name in names:
            value = place.get(name)
            if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point():
                return int(value)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, float) and value.is_integer():
                return int(value)
    return None


def is_number(value: Any) -> bool:
    """Whether a value counts something: an int, a float or a tensor with one element."""
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype is not torch.bool
    return isinstance(value, int | float) and not isinstance(value, bool)
