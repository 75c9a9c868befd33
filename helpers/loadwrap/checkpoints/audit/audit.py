"""Audits a resume: what was saved against what the live objects hold, before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..ranks import Ranks, describe
from ..replicas.insync import ReplicasOutOfSync
from ..replicas.spread import spread
from ..unwrap import unwrap
from .examine import Given, examine
from .findings import IGNORED, OK, RNG, SPREAD, Finding
from .merge import Local, apart, hash_of_prints, merge, spread_row
from .position import Now
from .reading import AuditError
from .report import AuditReport, report_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["AuditError", "AuditReport", "audit_resume"]


def audit_resume(
    checkpoint: object,
    *,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Any = None,
    scaler: Any = None,
    ema: Any = None,
    sampler: Any = None,
    loader: Any = None,
    step: int | None = None,
    epoch: int | None = None,
    position: int | None = None,
    asked_lr: float | Sequence[float] | None = None,
    ignore: str | Sequence[str] = (),
    group: ProcessGroup | None = None,
    show: bool = True,
) -> AuditReport:
    """Compares a checkpoint with the objects that were restored from it. Collective.

    Call it on every rank after the restore and after ``sampler.set_epoch``, before the first
    step. It changes nothing: no weight, no rate, no random state. It needs nothing of ours: any
    ``torch.save`` dict will do, and what that does not record is said to be "not recorded".

    The checks come in the order in which they find faults; later ones may only be consequences,
    so the first fault is the one to cure.

    Args:
        checkpoint: The path that was loaded, a folder (its newest), what ``load_checkpoint``
            returned, or the dict that ``torch.load`` returned.
        model: The model, inside or outside DDP, torch.compile or both.
        optimizer: The restored optimizer.
        scheduler: Its schedule; any object with ``step()``.
        scaler: The gradient scaler of mixed precision.
        ema: The moving average: an ``AveragedModel``, a module, a dict of tensors, or anything
            with ``state_dict()``.
        sampler: The sampler of the data; taken from `loader` if not given.
        loader: The loader of the data.
        step: The step at which your loop goes on.
        epoch: The epoch in which it goes on: for a sampler that does not know its own, or if you
            call ``set_epoch`` only after this.
        position: How many batches of this epoch it leaves out, because they were done.
        asked_lr: The base learning rate you want now, if it is another one on purpose; one for
            each parameter group, or that of the first, which the others follow in proportion.
        ignore: Patterns (``"head.*"``) of tensors, or names of checks, not to be judged.
        group: The ranks that take part; by default all.
        show: Print the table on the first rank.

    Returns:
        The verdicts, the same on every rank.

    Raises:
        AuditError: On every rank, if one of them cannot read the checkpoint.

    Example:
        >>> import torch
        >>> net = torch.nn.Linear(2, 1)
        >>> report = audit_resume({"model": net.state_dict()}, model=net, show=False)
        >>> report.first_fault, report.verdict("tensors loaded"), report.verdict("which file")
        (None, 'ok', 'not recorded')
    """
    random_state = torch.get_rng_state()
    ranks = Ranks(group)
    patterns = [ignore] if isinstance(ignore, str) else list(ignore)
    now = Now(step, epoch, position, _batches(loader))
    given = Given(
        checkpoint, model, optimizer, scheduler, scaler, ema, sampler, loader, now, asked_lr,
        patterns, random_state, max(ranks.numbers.index(ranks.me), 0) if ranks.member else 0,
        ranks.size,
    )  # fmt: skip
    if not ranks.member:
        return AuditReport((), title="not in the group: not audited")
    failure: Exception | None = None
    try:
        local = examine(given)
    except Exception as error:  # said to the others below: they are already waiting
        failure = error
        local = Local(error=str(error) if isinstance(error, AuditError) else describe(error))
    everyone = _gathered(local, ranks)
    failed = [(rank, one.error) for rank, one in zip(ranks.numbers, everyone, strict=True)
              if one.error]  # fmt: skip
    if failed:
        raise AuditError(_failure(failed, len(everyone))) from failure
    distance = None
    if apart(everyone):
        with suppress(ReplicasOutOfSync):  # other tensors altogether; raised on all ranks
            distance = spread(model, group=group)
    rows = merge(everyone, ranks.numbers)
    if rows[SPREAD].verdict != IGNORED and not rows[SPREAD].bad:
        rows[SPREAD] = spread_row(everyone, ranks.numbers, distance)
    report = report_of(rows, _title(checkpoint, everyone, ranks), _notes(model, loader, rows))
    if not torch.equal(torch.get_rng_state(), random_state):
        torch.set_rng_state(random_state)  # a schedule of the caller's own may have drawn
    if show and ranks.me == ranks.first:
        print(report, flush=True)
    return report


def _gathered(local: Local, ranks: Ranks) -> list[Local]:
    """Returns what every rank found; fingerprints by name are sent only where they differ."""
    short = {part: hash_of_prints(prints) for part, prints in local.prints.items()}
    everyone = ranks.gather((replace(local, prints={}), short))
    found = [one for one, _ in everyone]
    if any(one.error for one in found):
        return found
    for part, prints in local.prints.items():
        differ = len({hashes[part] for _, hashes in everyone}) > 1
        for one, its in zip(found, ranks.gather(prints) if differ else [prints] * ranks.size,
                            strict=True):  # fmt: skip
            one.prints[part] = its
    return found


def _batches(loader: Any) -> int | None:
    try:
        return len(loader) if loader is not None else None
    except TypeError:  # an iterable data set does not know
        return None


def _failure(failed: list[tuple[int, str]], size: int) -> str:
    if len(failed) == size and len({words for _, words in failed}) == 1:
        return failed[0][1]
    return "; ".join(f"rank {rank}: {words}" for rank, words in failed) + (
        "" if len(failed) == size else " (the other ranks could)"
    )


def _title(checkpoint: object, everyone: Sequence[Local], ranks: Ranks) -> str:
    file = everyone[0].file
    name = file[0] if file else "a dict"
    at = f", step {file[2]}" if file and file[2] is not None else ""
    where = f"{ranks.size} rank{'s' * (ranks.size > 1)}" if ranks.joined else "one process"
    folder = f" in {checkpoint}" if isinstance(checkpoint, str | Path) and Path(checkpoint).is_dir(
    ) else ""  # fmt: skip
    return f"audit of the resume from {name}{folder}{at}, {where}"


def _notes(model: nn.Module, loader: Any, rows: Mapping[str, Finding]) -> tuple[str, ...]:
    notes = []
    if not unwrap(model).training:
        notes.append("the model is in eval mode: dropout is off, batch norm stands still")
    draws = loader is not None and getattr(loader, "generator", None) is None
    if rows[RNG].verdict == OK and draws:
        notes.append(
            "iter(loader) draws from this random state: make the iterator before the state is "
            "restored, or give the loader a generator of its own"
        )
    return tuple(notes)
