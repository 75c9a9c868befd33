"""Asserts that all ranks hold the same model, or names what differs, where and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn
from torch.optim import Optimizer

from ..ranks import Ranks, spell
from .difference import Difference, of_content, of_structure
from .report import ReplicasOutOfSync, SyncReport
from .state import BUFFERS, NORMS, Part, collect

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["ReplicasOutOfSync", "SyncReport", "assert_in_sync"]


def assert_in_sync(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    buffers: bool = False,
    ignore: Sequence[str] = (),
    group: ProcessGroup | None = None,
) -> SyncReport:
    """Asserts that parameters and optimizer state have the same bits on every rank.

    Every rank of the group calls it. While all is equal it costs one reading of the tensors and
    one collective on a few numbers; only after a difference do the ranks exchange more, to name it.

    Buffers are compared as well, and reported apart: after a training step batch norm's running
    statistics differ between ranks by design, because each rank saw other data, until DDP sends
    rank 0's in the next forward. So they fail the assertion only if asked for. Parameters that
    are sharded (FSDP, DTensor, ZeroRedundancyOptimizer) differ by design: left out, and said.

    Args:
        model: The model, inside or outside DDP, torch.compile or both.
        optimizer: Its state and its settings, such as the learning rate, are compared too.
        buffers: Whether a difference in buffers is a failure.
        ignore: Patterns (``"experts.*"``) of names to leave out.
        group: The ranks to compare; by default all.

    Returns:
        What was compared and found; printed, a line for each part. Without a process group, or
        with one rank, there is nothing to compare with, and it says so.

    Raises:
        ReplicasOutOfSync: On every rank: the first tensor that differs, the ranks and how far.
        RuntimeError: torchrun started several ranks, but no process group was made. Or, on every
            rank: a rank could not read its tensors.

    Example:
        >>> import torch
        >>> print(assert_in_sync(torch.nn.Linear(2, 2)))
        one rank: nothing to compare with
    """
    ranks = Ranks(group)
    if ranks.size == 1 or not ranks.member:
        return SyncReport(ranks.numbers, [], ranks.member)
    parts: list[Part] = []
    numbers: list[int] = []
    failure: Exception | None = None
    try:
        parts = collect(model, optimizer, ignore)
        for part in parts:
            numbers += [part.structure(), part.content()]
    except Exception as error:  # said to the others below: they are already waiting
        failure = error
    rows = ranks.gather_numbers([int(failure is not None), optimizer is None, *_padded(numbers)])
    if any(row[0] for row in rows):
        failed = ranks.agree(failure)
        words = "; ".join(f"rank {rank}: {text}" for rank, text in failed.items())
        raise RuntimeError(f"could not read the tensors to compare: {words}") from failure
    if len({row[1] for row in rows}) > 1:
        without = [rank for rank, row in zip(ranks.numbers, rows, strict=True) if row[1]]
        raise RuntimeError(
            f"assert_in_sync was given an optimizer on some ranks only: not on {spell(without)}"
        )
    report = SyncReport(ranks.numbers, parts)
    unequal: list[Difference] = []
    for index, part in enumerate(parts):
        structures = {row[2 + 2 * index] for row in rows}
        contents = {row[3 + 2 * index] for row in rows}
        if len(structures) > 1 or len(contents) > 1:
            unequal.append(Difference(part, structure=len(structures) > 1))
    report.differences = unequal
    by_design = () if buffers else (BUFFERS, NORMS)
    if all(difference.part.name in by_design for difference in unequal):
        return report
    for difference in unequal:
        (of_structure if difference.structure else of_content)(difference, ranks)
    failing = [
        difference
        for difference in unequal
        if difference.part.name not in by_design and difference.names
    ]
    if failing:
        raise ReplicasOutOfSync(report, failing[0])
    return report


def _padded(numbers: list[int]) -> list[int]:
    """Fills up to two numbers for each of four parts: every rank sends as many."""
    return numbers + [0] * (8 - len(numbers))
