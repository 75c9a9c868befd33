"""Opens one file on all ranks: the same bytes on each, also while a writer replaces the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..ranks import Ranks
from .choose import Choice, choose, peek, seen, verify
from .errors import CheckpointError, on_ranks

_TRIES = 10


def open_together(place: Path, ranks: Ranks) -> tuple[Choice, Any]:
    """Returns the file that the first rank chose, and what this rank read from it.

    A file that was replaced or removed between the choice and a rank's reading would give the
    ranks different states: then the first rank chooses again.

    Raises:
        CheckpointError: On every rank. Its reason is "missing" only if there is no file yet.
    """
    failure: Exception | None = None
    for _ in range(_TRIES):
        decision: Choice | CheckpointError | None = None
        if ranks.me == ranks.first:
            try:
                decision = choose(place)
            except Exception as error:
                decision = _as_checkpoint_error(error)
        decision = ranks.from_first(decision)
        if isinstance(decision, CheckpointError):
            raise CheckpointError(str(decision), decision.reason)
        assert decision is not None
        tree, failure = None, None
        try:
            tree = _read(decision, ranks.me == ranks.first)
        except Exception as error:  # the others are already waiting
            failure = error
        replaced = ranks.me == ranks.first and seen(decision.path) != decision.seen
        rows = ranks.gather_numbers([failure is not None, replaced])
        if not any(failed for failed, _ in rows):
            return decision, tree
        if not any(changed for _, changed in rows):
            break
    raise_together(ranks, failure, "nothing was changed")
    raise AssertionError("a rank had failed")


def raise_together(ranks: Ranks, failure: Exception | None, after: str) -> None:
    """Raises CheckpointError on every rank if one failed; `after` says what state that leaves."""
    failed = ranks.agree(failure)
    if not failed:
        return
    if isinstance(failure, CheckpointError) and len(failed) == ranks.size:
        raise failure
    reason = failure.reason if isinstance(failure, CheckpointError) else "other rank"
    raise CheckpointError(f"{on_ranks(failed, ranks.size)} ({after})", reason) from failure


def _read(choice: Choice, first: bool) -> Any:
    as_verified = choice.seen if first else verify(choice)
    try:
        tree = peek(choice.path)
    except CheckpointError as error:
        raise CheckpointError(f"{choice.path} {error}", error.reason) from error
    if seen(choice.path) != as_verified:
        raise CheckpointError(f"{choice.path} was replaced while it was read", "several")
    return tree


def _as_checkpoint_error(error: Exception) -> CheckpointError:
    if isinstance(error, CheckpointError):
        return error
    return CheckpointError(f"{type(error).__name__}: {error}")
