"""What of a training run a checkpoint holds, and what a resume would lack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..formats.checkpoint import Checkpoint
from ..formats.values import Refused, TensorInfo, spell
from ..formats.words import plural, some
from .optimizers import Optimizer, read_optimizer
from .weights import Weights, find_weights

_EPOCH = {"epoch", "epochs", "epochs_run", "current_epoch", "next_epoch", "start_epoch"}
_STEP = {
    "step",
    "steps",
    "global_step",
    "global_steps",
    "iter",
    "iteration",
    "iter_num",
    "iterations",
    "num_updates",
    "updates",
    "train_steps",
}
# Entries that keep settings or statistics, whose counters are not the run's.
_ASIDE = {"callbacks", "loops", "message_hub", "config", "cfg", "args", "hyper_parameters"}
_SCALER = {"scale", "growth_factor", "backoff_factor", "growth_interval"}


@dataclass
class Found:
    """One part of a training run: where it lies, and a few words on it."""

    where: str
    words: str
    depth: int = 0


@dataclass
class Contents:
    """The parts of a training run found in a checkpoint.

    Attributes:
        weights: Entries that hold weights, the likeliest first.
        optimizers: States of optimizers.
        parts: Other parts by name: "epoch", "step", "scheduler", "scaler", "ema", "rng",
            "sampler".
        missing: Parts that a resume needs and the file does not hold.
        doubtful: Parts that it needs only if the training used them.
    """

    weights: list[Weights]
    optimizers: list[Optimizer] = field(default_factory=list)
    parts: dict[str, list[Found]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)


def read_contents(checkpoint: Checkpoint) -> Contents:
    """Looks through the tree and, for a folder, at the names of its files."""
    contents = Contents(find_weights(checkpoint.tree))
    inside: set[Any] = {one.path for one in contents.weights if one.path}
    inside.add(id(checkpoint.tree))
    _look(checkpoint.tree, (), contents, inside, 4)
    for name, tree in checkpoint.beside.items():
        optimizer = read_optimizer(name, tree)
        contents.optimizers += [optimizer] if optimizer is not None else []
    for part, names in checkpoint.contents.items():
        if part != "model" and not (part == "optimizer" and contents.optimizers):
            _add(contents, part, some(names, 1))
    for weights in contents.weights:
        if weights.average:
            _add(contents, "ema", weights.code, plural(len(weights.tensors), "tensor"))
    for part in ("epoch", "step"):
        held = contents.parts.get(part, [])
        top = min((one.depth for one in held), default=0)
        if held:
            contents.parts[part] = [one for one in held if one.depth == top]
    whole = any(not one.path for one in contents.weights)
    if not (whole and not contents.parts and not contents.optimizers):
        _judge(contents)
    else:
        contents.missing = ["optimizer", "scheduler", "epoch or step", "random state"]
    return contents


def _judge(contents: Contents) -> None:
    parts = contents.parts
    if not contents.weights:
        contents.missing.append("weights")
    if not contents.optimizers and "optimizer" not in parts:
        contents.missing.append("optimizer")
    if "scheduler" not in parts:
        contents.missing.append("scheduler (unless the rate is computed from the step)")
    if "epoch" not in parts and "step" not in parts:
        contents.missing.append("epoch or step")
    if "rng" not in parts:
        contents.missing.append("random state")
    names = {"scaler": "AMP scaler", "ema": "EMA", "sampler": "sampler"}
    contents.doubtful = [words for part, words in names.items() if part not in parts]


def _add(contents: Contents, part: str, where: str, words: str = "", depth: int = 0) -> None:
    contents.parts.setdefault(part, []).append(Found(where, words, depth))


def _look(
    value: Any, path: tuple[Any, ...], contents: Contents, inside: set[Any], deeper: int
) -> None:
    if path in inside or not deeper:
        return
    if isinstance(value, Refused):
        value = value.entries or value.attributes
    if isinstance(value, (list, tuple)):
        for index, part in enumerate(value[:16]):
            if isinstance(part, (dict, Refused)):
                _one("", part, (*path, index), contents, inside, deeper)
        return
    if not isinstance(value, dict) or len(value) > 5000:
        return
    for key, part in value.items():
        _one(
            key.lower() if isinstance(key, str) else "",
            part,
            (*path, key),
            contents,
            inside,
            deeper,
        )


def _one(
    name: str, value: Any, path: tuple[Any, ...], contents: Contents, inside: set[Any], deeper: int
) -> None:
    """Says which part one entry is, by its form first and by its name second."""
    if id(value) in inside:
        return  # one that holds itself was looked through where it was met first
    where = spell(path)
    optimizer = read_optimizer(where, value)
    if optimizer is not None:
        contents.optimizers.append(optimizer)
        return
    if isinstance(value, dict) and _SCALER <= value.keys():
        _add(contents, "scaler", where, f"scale {_plain(value['scale'])}")
        return
    if isinstance(value, dict) and "last_epoch" in value and _scheduler(value):
        rates = value.get("_last_lr")
        told = f", last lr {_plain(rates[0])}" if isinstance(rates, list) and rates else ""
        _add(contents, "scheduler", where, f"last_epoch {_plain(value['last_epoch'])}{told}")
        return
    number = isinstance(value, (int, float, TensorInfo)) and not isinstance(value, bool)
    number = number or (isinstance(value, Refused) and value.name.endswith("BytesStorageMetadata"))
    if number and len(path) <= 3 and name in _EPOCH | _STEP and not _ASIDE & set(path):
        words = _plain(value)
        if path == ("EPOCHS_RUN",):
            words += " (PyTorch's tutorial resumes at this epoch, so it is trained twice)"
        _add(contents, "epoch" if name in _EPOCH else "step", where, words, len(path))
        return
    if name and not isinstance(value, (bool, str)) and value is not None:
        if "scaler" in name:
            words = "empty: it was disabled when it was saved" if value == {} else ""
            _add(contents, "scaler", where, words)
            return
        if "rng" in name or "random_state" in name:
            _add(contents, "rng", where)
            return
        if "sampler" in name or name in ("train_iterator", "dataloader", "data_state"):
            _add(contents, "sampler", where)
            if isinstance(value, dict):
                _below(value, path, contents, inside, deeper - 1)
            return
        if "sched" in name and isinstance(value, (dict, list, Refused)):
            if isinstance(value, list) and len(value) == 1:
                return _one(name, value[0], (*path, 0), contents, inside, deeper)
            if value not in ({}, []):
                _add(contents, "scheduler", where)
            return None
        if "optim" in name and isinstance(value, Refused):
            _add(contents, "optimizer", where, value.name)
            return None
    _below(value, path, contents, inside, deeper - 1)
    return None


def _below(
    value: Any, path: tuple[Any, ...], contents: Contents, inside: set[Any], deeper: int
) -> None:
    inside.add(id(value))
    _look(value, path, contents, inside, deeper)
    inside.discard(id(value))


def _scheduler(value: dict[Any, Any]) -> bool:
    return bool({"_step_count", "base_lrs", "_last_lr"} & value.keys())


def _plain(value: Any) -> str:
    if isinstance(value, TensorInfo):
        return "(a tensor)"
    if isinstance(value, Refused):
        return "(its value lies in the data files)"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and abs(value) < 1 << 63:
        return str(value)
    return f"(a {type(value).__name__})"
