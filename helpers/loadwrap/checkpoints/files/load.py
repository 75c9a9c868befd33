"""Loads a training: rank 0 decides which file, every rank reads it, verifies it and restores."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from ..ranks import Ranks, spell
from .choose import Choice
from .errors import CheckpointError
from .loaded import Loaded
from .parts import check_given
from .plain import detached
from .plan import Plan, make_plan
from .restore import apply
from .together import open_together, raise_together
from .worlds import other_world

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["Loaded", "load_checkpoint"]


def load_checkpoint(
    path: str | os.PathLike[str],
    *,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    sampler: Any = None,
    loader: Any = None,
    exact: bool = False,
    missing_ok: bool = False,
    group: ProcessGroup | None = None,
) -> Loaded:
    """Restores what was saved, in place. Every rank calls it, when everything has been built.

    The first rank decides which file, and tells the others. Each rank reads it on the CPU, mapped
    from the disk, checks it against its manifest, and copies the tensors to where the model is;
    then the optimizer, and after it the scheduler. Either all ranks restore, or all raise and
    nothing was changed. The model may be wrapped already or be wrapped afterwards.

    The random state comes last, and only you know when: call ``loaded.restore_rng()`` once the
    loader's iterator exists.

    It reads any ``torch.save`` file that holds a dict of states; what such a file does not record
    is said. It never runs code from a file.

    Args:
        path: A file; or a folder, of which the complete one of the highest step is taken.
        model: The model, inside or outside DDP, torch.compile or both.
        optimizer: And so on: what is given is restored, and what the file lacks of it is named.
            All ranks give the same parts.
        scheduler: As it was built, after the optimizer.
        scaler: The ``GradScaler``.
        ema: The moving average.
        sampler: Its epoch is set.
        loader: Used to tell how many steps an epoch has now; and see `Loaded.restore_rng`.
        exact: Raise instead of going on when the run could not go on as it was: another number
            of ranks, a part that the file lacks, an older file than the newest.
        missing_ok: Return a `Loaded` of step 0 if there is no checkpoint yet.
        group: The ranks that load; by default all.

    Returns:
        What was restored. Print it on one rank.

    Raises:
        CheckpointError: On every rank, in a sentence: there is no complete file, it is not safe
            to read, the weights or the optimizer do not fit, the ranks gave different parts.
        RuntimeError: torchrun started several ranks, but no process group was made.

    Example:
        >>> import tempfile, torch
        >>> from loadwrap.checkpoints import load_checkpoint, save_checkpoint
        >>> net, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = save_checkpoint(folder, step=120, model=net)
        ...     print(load_checkpoint(folder, model=other))
        step_00000120.pt: step 120
        restored: model
    """
    ranks = Ranks(group)
    if not ranks.member:
        return Loaded(notes=("this rank is not in the group that loads",))
    given = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "scaler": scaler,
        "ema": ema,
        "sampler": sampler,
    }
    _same_on_all(ranks, given, exact, missing_ok)
    try:
        decision, tree = open_together(Path(path), ranks)
    except CheckpointError as error:
        if missing_ok and error.reason == "missing":
            return Loaded(notes=(str(error),))
        raise
    plan: Plan | None = None
    failure: Exception | None = None
    try:
        check_given(given)
        plan = make_plan(tree, decision, given)
        loaded = _describe(plan, decision, tree, ranks)
        plan.notes += other_world(plan, ranks.size, sampler, loader, tree)
        if exact:
            _refuse_inexact(plan, decision, loaded, ranks)
    except Exception as error:  # the others must know before anybody changes anything
        failure = error
    raise_together(ranks, failure, "nothing was changed")
    assert plan is not None
    try:
        loaded.restored = tuple(apply(plan, given, tree, ranks))
    except Exception as error:
        failure = error
    raise_together(ranks, failure, "the objects may be half restored")
    loaded.notes = tuple(plan.notes)
    if ranks.me == ranks.first:
        _warn(loaded, decision)
    return loaded


def _same_on_all(ranks: Ranks, given: dict[str, Any], exact: bool, missing_ok: bool) -> None:
    """Raises if the ranks were asked for different things: replicas would go apart in silence."""
    asked = [*(thing is not None for thing in given.values()), bool(exact), bool(missing_ok)]
    rows = ranks.gather_numbers(asked)
    if all(row == rows[0] for row in rows):
        return
    names = [*given, "exact=True", "missing_ok=True"]
    told: dict[str, list[int]] = {}
    for rank, row in zip(ranks.numbers, rows, strict=True):
        words = ", ".join(name for name, flag in zip(names, row, strict=True) if flag)
        told.setdefault(words or "nothing", []).append(rank)
    each = "; ".join(f"{spell(numbers)}: {words}" for words, numbers in told.items())
    raise CheckpointError(f"the ranks were asked to load different things: {each}", "other rank")


def _describe(plan: Plan, choice: Choice, tree: Any, ranks: Ranks) -> Loaded:
    plan.notes[:0] = [f"passed over: {words}" for words in choice.passed_over]
    place = ranks.numbers.index(ranks.me)
    states = tree.get("rng") if plan.world_size is not None else None
    generators = tree.get("loader_generators") if plan.world_size is not None else None
    mine = states[place] if states and place < len(states) else None
    if mine is None:
        plan.notes.append("the file holds no random state for this rank")
    generator = generators[place] if generators and place < len(generators) else None
    return Loaded(
        step=plan.step,
        epoch=plan.epoch,
        extra=plan.extra,
        path=choice.path,
        missing=tuple(plan.missing),
        unused=tuple(plan.unused),
        world_size=plan.world_size,
        rng=detached(mine),
        loader_state=detached(generator),
    )


def _refuse_inexact(plan: Plan, choice: Choice, loaded: Loaded, ranks: Ranks) -> None:
    reasons = [f"passed over: {words}" for words in choice.passed_over]
    reasons += [f"the file has no {part}" for part in plan.missing]
    if plan.world_size != ranks.size:
        then = "not recorded" if plan.world_size is None else f"{plan.world_size}"
        reasons.append(f"ranks then: {then}, now: {ranks.size}")
    if loaded.rng is None:
        reasons.append("no random state for this rank")
    reasons += plan.inexact
    if reasons:
        raise CheckpointError(f"{choice.path} cannot be resumed exactly: {'; '.join(reasons)}")


def _warn(loaded: Loaded, choice: Choice) -> None:
    """Says on one rank what must not be overlooked."""
    words = [f"passed over: {text}" for text in choice.passed_over]
    if loaded.missing:
        words.append(f"the file has no {', '.join(loaded.missing)}: they stay as they were built")
    if loaded.unused:
        words.append(f"the file has {', '.join(loaded.unused)}, which nobody asked for")
    for text in words:
        warnings.warn(f"{choice.path.name}: {text}", stacklevel=3)
