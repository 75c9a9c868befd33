"""Saves a training: every rank calls it, global rank 0 writes, all leave together."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..ranks import Ranks, spell
from .arguments import extra_of, path_of, whole
from .atomic import Stamp, remove_leftovers, write_beside
from .errors import SaveFailed, on_ranks
from .manifest import VERSION, commit, keep_newest
from .parts import FORMAT, check_given, collect
from .places import writable_place
from .plain import plain
from .rng import capture, loader_state

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def save_checkpoint(
    path: str | os.PathLike[str],
    *,
    step: int,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    sampler: Any = None,
    loader: Any = None,
    extra: Mapping[str, Any] | None = None,
    epoch: int | None = None,
    keep: int | None = None,
    group: ProcessGroup | None = None,
) -> Path:
    """Writes one checkpoint that is whole or not there. Every rank calls it.

    The weights are saved under the names of the unwrapped model, so the file loads inside and
    outside DDP. The first rank writes to a temporary file in the same folder, brings it to the
    disk, and renames it; beside it lies a manifest with its size and checksum. Killed at any
    moment, it leaves the file that was there before, or the new one, and never a part of one.
    The random states of all ranks are in it. ``torch.load`` reads it like any other file.

    Args:
        path: The file; or a folder (any name without a suffix), in which it becomes
            ``step_00000120.pt``. Folders are made where they are missing. Where it is a link,
            what it points to is replaced, and returned; a pipe or device is refused.
        step: Optimizer steps done. A folder's newest checkpoint is the one of the highest step.
        model: Inside or outside DDP, torch.compile or both.
        optimizer: And so on: what is given is saved. A `ZeroRedundancyOptimizer` is consolidated.
        scheduler: Anything with ``state_dict()``.
        scaler: The ``GradScaler``.
        ema: ``AveragedModel``, or anything with ``state_dict()``.
        sampler: ``DistributedSampler``: its epoch, its seed and how it shares out.
        loader: If it has a generator of its own, that one's state is saved for each rank.
        extra: Plain values and tensors of your own.
        epoch: The epoch of the next step; if not given, the sampler's.
        keep: Afterwards keep this many: older complete ones of the same name but for its numbers
            are removed. By default all stay.
        group: The ranks that save; by default all.

    Returns:
        The file, on every rank.

    Raises:
        SaveFailed: On every rank: the disk is full, an object cannot be read back safely, the
            ranks do not agree on the file, or one gives a part that the first was not given.
            What was there is untouched.
        RuntimeError: torchrun started several ranks, but no process group was made.

    Example:
        >>> import tempfile, torch
        >>> net = torch.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(folder, step=120, model=net).name
        'step_00000120.pt'
    """
    ranks = Ranks(group)
    if not ranks.member:
        return Path(path)
    given = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "scaler": scaler,
        "ema": ema,
        "sampler": sampler,
    }
    failure: Exception | None = None
    try:
        target = path_of(path)
        name = zlib.crc32(os.fsencode(target))
        check_given(given)
        step = whole("step", step, 0)
        keep = None if keep is None else whole("keep", keep, 1)
        epoch = None if epoch is None else whole("epoch", epoch, 0)
        mine = {"rng": capture(), "loader": loader_state(loader)}
        extra = extra_of(extra)
    except Exception as error:
        failure = error
    parts = [thing is not None for thing in given.values()]
    asked = [0, name, step] if failure is None else [1, 0, 0]
    rows = ranks.gather_numbers([*asked, *parts])
    _raise_together(ranks, failure, any(row[0] for row in rows))
    _refuse_lost(ranks, list(given), [row[3:] for row in rows])
    if len({(row[1], row[2]) for row in rows}) > 1:
        places = ranks.gather((str(target), step))
        raise SaveFailed(
            "the ranks were asked to save different things: "
            + "; ".join(
                f"rank {n}: {p}, step {s}" for n, (p, s) in zip(ranks.numbers, places, strict=True)
            )
        )
    consolidate = getattr(optimizer, "consolidate_state_dict", None)
    if consolidate is not None:  # ZeroRedundancyOptimizer: a collective
        consolidate(to=ranks.first)
    states = ranks.to_first(mine)
    if ranks.me == ranks.first:
        try:
            target = _write(target, step, epoch, given, loader, extra, states, keep)
        except Exception as error:
            failure = error
    _raise_together(ranks, failure, None)
    return ranks.from_first(target)


def _refuse_lost(ranks: Ranks, names: list[str], given: list[list[int]]) -> None:
    """Raises if a rank gives what the writing one was not given: the file would lack it."""
    for index, name in enumerate(names):
        others = [rank for rank, row in zip(ranks.numbers, given, strict=True) if row[index]]
        if others and not given[0][index]:
            raise SaveFailed(
                f"nothing was saved: {spell([ranks.numbers[0]])} was given no {name}, "
                f"{spell(others)} {'was' if len(others) == 1 else 'were'}; every rank gives the "
                "same parts"
            )


def _write(
    target: Path,
    step: int,
    epoch: int | None,
    given: dict[str, Any],
    loader: Any,
    extra: Any,
    states: list[dict[str, Any]],
    keep: int | None,
) -> Path:
    if target.is_dir() or not target.suffix and not target.exists():
        target = target / f"step_{step:08d}.pt"
    target = writable_place(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    epoch = epoch if epoch is not None else getattr(given["sampler"], "epoch", None)
    content = {
        "loadwrap": FORMAT,
        "step": step,
        "epoch": epoch,
        "world_size": len(states),
        **collect(given),
        "extra": extra,
        "rng": [plain(state["rng"], "rng") for state in states],
    }
    if any(state["loader"] is not None for state in states):
        content["loader_generators"] = [state["loader"] for state in states]
    partial, stamp = write_beside(target, lambda file: torch.save(content, file))
    try:
        manifest = _manifest(content, stamp)
        manifest["record"] = _record(given, loader, step, epoch)
        commit(partial, target, manifest)
    finally:
        partial.unlink(missing_ok=True)
    if keep is not None:
        try:
            keep_newest(target, step, keep)
        except OSError as error:  # no reason to end a training: the new one is there
            warnings.warn(f"older checkpoints could not be removed: {error}", stacklevel=3)
    return target


def _manifest(content: dict[str, Any], stamp: Stamp) -> dict[str, Any]:
    known = ("loadwrap", "step", "epoch", "world_size", "optimizer_names")
    return {
        "version": VERSION,
        "step": content["step"],
        "epoch": content["epoch"],
        "world_size": content["world_size"],
        "size": stamp.size,
        "checksums": {"crc32": f"{stamp.crc32:08x}"},
        "parts": [part for part in content if part not in known],
        "torch": str(torch.__version__),
        "complete": True,
    }


def _record(
    given: dict[str, Any], loader: Any, step: int, epoch: int | None
) -> dict[str, Any] | None:
    """Returns what the audit of a resume will want to know; the save does not depend on it."""
    try:
        from ..audit.record import take_record

        return take_record(**given, loader=loader, step=step, epoch=epoch)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _raise_together(ranks: Ranks, failure: Exception | None, any_failed: bool | None) -> None:
    """Raises SaveFailed on every rank if one failed; asks the others where that is not known."""
    if any_failed is False:
        return
    failed = ranks.agree(failure)
    if failed:
        raise SaveFailed(f"nothing was saved: {on_ranks(failed, ranks.size)}") from failure
