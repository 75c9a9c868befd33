"""One number to log: how far the replicas have drifted apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import nn

from ..ranks import Ranks
from .difference import Difference, of_structure
from .distance import distance
from .report import ReplicasOutOfSync, SyncReport
from .state import collect

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def spread(model: nn.Module, *, group: ProcessGroup | None = None) -> float:
    """Returns the largest difference of any parameter between any two ranks. Collective.

    0.0 while all ranks hold the same bits, for the price of one reading of the parameters; only
    replicas that differ are sent. Sharded parameters are left out.

    Args:
        model: The model, inside or outside DDP, torch.compile or both.
        group: The ranks to compare; by default all.

    Returns:
        The difference, the same number on all ranks; NaN where a parameter is NaN on some ranks
        only, and where all of them are sharded. 0.0 with one rank.

    Raises:
        ReplicasOutOfSync: On every rank: they do not have the same parameters at all.
        RuntimeError: torchrun started several ranks, but no process group was made. Or, on every
            rank: a rank could not read its parameters.

    Example:
        >>> import torch
        >>> spread(torch.nn.Linear(2, 2))
        0.0
    """
    ranks = Ranks(group)
    if ranks.size == 1 or not ranks.member:
        return 0.0
    failure: Exception | None = None
    numbers = [1, 0, 0]
    try:
        part = collect(model)[0]
        numbers = [0, part.structure(), part.content()]
    except Exception as error:  # said to the others below: they are already waiting
        failure = error
    rows = ranks.gather_numbers(numbers)
    if any(row[0] for row in rows):
        failed = ranks.agree(failure)
        words = "; ".join(f"rank {rank}: {text}" for rank, text in failed.items())
        raise RuntimeError(f"could not read the parameters: {words}") from failure
    if len({row[1] for row in rows}) > 1:
        difference = Difference(part, structure=True)
        of_structure(difference, ranks)
        raise ReplicasOutOfSync(SyncReport(ranks.numbers, [part], True, [difference]), difference)
    if part.sharded and not part.tensors:
        return math.nan
    if len({row[2] for row in rows}) == 1:
        return 0.0
    return distance(part.tensors.values(), ranks).largest
