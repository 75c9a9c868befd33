"""What saving and loading raise, on every rank alike."""

from __future__ import annotations

from collections.abc import Mapping

from ..formats.values import CheckpointError
from ..ranks import spell

__all__ = ["CheckpointError", "SaveFailed", "on_ranks"]


class SaveFailed(RuntimeError):
    """The checkpoint could not be written; what was there before is still there.

    Raised on every rank, with the reason of the rank that failed.
    """


def on_ranks(failed: Mapping[int, str], size: int) -> str:
    """Returns what failed on which ranks, in words."""
    reasons: dict[str, list[int]] = {}
    for rank, words in failed.items():
        reasons.setdefault(words, []).append(rank)
    if len(reasons) == 1 and len(failed) == size:
        return next(iter(reasons))
    return "; ".join(f"{spell(ranks)}: {words}" for words, ranks in reasons.items())
