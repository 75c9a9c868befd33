"""What changes when another number of ranks goes on with a training."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .plan import Plan


def other_world(plan: Plan, size: int, sampler: Any, loader: Any, tree: Any) -> list[str]:
    """Returns what changes, in sentences; nothing for the same number of ranks.

    Args:
        plan: What will be restored.
        size: How many ranks there are now.
        sampler: This rank's sampler, or None.
        loader: This rank's loader, or None.
        tree: What the file holds.
    """
    then = plan.world_size
    if then is None:
        return ["how many ranks saved the file is not recorded"]
    if then == size:
        return []
    words = f"saved by {_ranks(then)}, now {_ranks(size)}: "
    share = (tree.get("sampler") or {}).get("num_samples")
    now = getattr(sampler, "num_samples", None)
    if share and now:
        words += f"each rank sees {now:,} samples an epoch instead of {share:,}"
    else:
        words += f"each rank sees {_times(Fraction(then, size))} the samples of an epoch"
    words += (
        "; with the same batch size a rank, the steps of an epoch become "
        f"{_times(Fraction(then, size))} as many and the effective batch "
        f"{_times(Fraction(size, then))} as large (the learning rate was tuned for the old one)"
    )
    lines = [words]
    try:
        lines.append(f"an epoch now has {len(loader):,} steps" if loader is not None else "")
    except TypeError:  # an iterable data set does not know
        pass
    if size > then:
        lines.append(f"ranks {then} and up have no random state in the file")
    return [line for line in lines if line]


def _ranks(number: int) -> str:
    return f"{number} rank" + ("" if number == 1 else "s")


def _times(ratio: Fraction) -> str:
    return f"{ratio.numerator}x" if ratio.denominator == 1 else f"{ratio}x"
