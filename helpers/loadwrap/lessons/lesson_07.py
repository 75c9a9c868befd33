"""Exercise checks of lesson 07: the replicas in step, the images drawn, the thawed layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .in_step import EPOCH, drawn, outcome, values_of
from .verdicts import NotYet, judge, listed, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["check_calls", "check_order", "check_thaw"]

_BATCH = 36  # images of a rank and a step
_THAWS = 20  # the step at which exercise 3 trains the convolution
_THAWED = "conv.weight"  # what assert_in_sync names first


def check_calls(run: Run) -> None:
    """Exercise 1: each rank trains on images of its own, and the replicas stay equal.

    Args:
        run: The learner's run by way of ``MEASURED``, which logged ``loss`` and ``spread``.
    """
    judge(_calls, run)


def check_order(run: Run, whole: Run) -> None:
    """Exercise 2: a resumed run draws what the uninterrupted one drew from there on.

    Args:
        run: The learner's run, resumed at batch 5 of epoch 2, which logged ``seen``.
        whole: The uninterrupted run, which logged ``told``.
    """
    judge(_reading, run, whole)


def check_thaw(run: Run, culprit: object) -> None:
    """Exercise 3: the tensor that drifted was named, and now it is trained on all ranks alike.

    Args:
        run: The learner's run by way of ``MEASURED``, which logged ``loss``, ``spread`` and
            ``conv``.
        culprit: The name of the tensor that left first.
    """
    judge(_thaw, run, culprit)


def _logged(run: Run, *names: str) -> None:
    for name in names:
        if name not in run.metrics:
            raise NotYet(f"no rank logged {name}.")
    if len(run.ranks) < 2:
        raise NotYet("one rank has nobody to be in step with: start at least 2.")


def _trained_together(run: Run) -> None:
    """Ranks of different data have learned as one, by the mean of their gradients."""
    losses = list(values_of(run, "loss").values())
    far = max(max(values) for values in values_of(run, "spread").values())
    if not far == 0:
        raise NotYet(f"no error, and the replicas end up as far as ≈ {far:.2g} apart.")
    for metric in ("weights", "own"):
        if metric not in run.metrics:
            raise NotYet("no optimizer took two steps.")
    for step, held in enumerate(_by_step(run, "weights")):
        if len(set(held)) > 1:
            raise NotYet(f"the spread in the log is 0, and the weights differ at step {step}.")
    if any(first == second for first, second in zip(losses[0], losses[1], strict=False)):
        raise NotYet("two ranks have the same loss: each is to train on images of its own.")
    start, end = (sum(values[at] for values in losses) / len(losses) for at in (0, -1))
    if not end < 0.7 * start:
        raise NotYet(f"the replicas are equal and learn nothing: the loss stays at ≈ {end:.2f}.")
    _averaged(run)


def _averaged(run: Run) -> None:
    """All ranks' gradients are in the one that they step by."""
    own, used = _by_step(run, "own"), _by_step(run, "used")
    if any(len(set(step)) > 1 for step in used):
        begun, ended = _by_step(run, "weights")[1:], _by_step(run, "stepped")
        same = _one_for_all(ended, begun)
        why = (
            "they are made equal after each step"
            if same is None
            else (f"rank {same}'s weights overwrite the others")
        )
    elif (same := _one_for_all(own, used)) is not None:
        why = f"rank {same}'s gradient overwrites the others"
    elif all(
        abs(step[0] - sum(parts) / len(parts)) < 1e-3 * max(map(abs, parts))
        for parts, step in zip(own, used, strict=True)
    ):
        return
    else:
        raise NotYet("the ranks step by one gradient, and it is not the mean of their own.")
    raise NotYet(f"the replicas are equal because {why}; their gradients were not averaged.")


def _by_step(run: Run, name: str) -> list[tuple[float, ...]]:
    return list(zip(*values_of(run, name).values(), strict=False))


def _one_for_all(mine: list[tuple[float, ...]], all_have: list[tuple[float, ...]]) -> int | None:
    """Returns the rank of which all ranks have the value at every step."""
    pairs = list(zip(mine, all_have, strict=False))
    for rank in range(len(mine[0])):
        if all({before[rank]} == set(after) for before, after in pairs):
            return rank
    return None


def _calls(run: Run) -> str:
    waited(run)
    _logged(run, "loss", "spread")
    _trained_together(run)
    return f"{len(run.ranks)} ranks, images of their own, a mean of their gradients, a spread of 0."


def _reading(run: Run, whole: Run) -> str:
    waited(run)
    _logged(run, "seen")
    told = drawn(whole, "told")
    if len(run.ranks) != len(told):
        raise NotYet(f"it ran on {len(run.ranks)} ranks, and the uninterrupted run on {len(told)}.")
    start = 2 * EPOCH + 5 * _BATCH
    seen = values_of(run, "seen")
    missing = [rank for rank in run.ranks if rank not in seen]
    if missing:
        raise NotYet(f"{listed(missing)} of {len(told)} logged nothing.")
    if len({tuple(numbers) for numbers in seen.values()}) < len(seen):
        raise NotYet("two ranks draw the same images.")
    for rank, numbers in sorted(seen.items()):
        right = told[rank].reshape(-1)[start:].tolist()
        words = f"rank {rank}'s first image is {int(numbers[0])}"
        if numbers[0] == told[rank, 0, 0]:
            raise NotYet(f"{words}: epoch 0 began with it, too.")
        if numbers[0] == told[rank, 2, 0]:
            raise NotYet(f"{words}: the order is right, but epoch 2 began with it.")
        if numbers[0] != right[0]:
            raise NotYet(f"{words}, and the uninterrupted run went on with {right[0]}.")
        pairs = zip(numbers, right, strict=False)
        wrong = [place for place, (mine, other) in enumerate(pairs) if mine != other]
        if wrong:
            raise NotYet(f"rank {rank} is right for {wrong[0]} images, and then leaves the order.")
        if len(numbers) != len(right):
            raise NotYet(f"rank {rank} drew {len(numbers)} images instead of {len(right)}.")
    return f"all {len(seen)} ranks go on with the {len(right)} images that were left for them."


def _thaw(run: Run, culprit: object) -> str:
    named = str(culprit).removeprefix("module.") if culprit is not None else None
    if named == "conv.bias":
        raise NotYet(f"the error names {_THAWED}; {named} goes with it.")
    if named not in (None, _THAWED):
        raise NotYet(f"{named} is not the tensor that the error names.")
    stopped = outcome(run)
    if "ReplicasOutOfSync" in stopped:
        if named is None:
            raise NotYet("the line speaks now: which tensor does it name? Set culprit to it.")
        raise NotYet(f"{named} it is: the line speaks. Now mend what it says.")
    waited(run)
    _logged(run, "loss", "spread", "conv")
    if named is None:
        far = max(max(values) for values in values_of(run, "spread").values())
        words = f"the replicas end up ≈ {far:.2g} apart, and" if far else "they stay together, but"
        raise NotYet(f"{words} nobody has named a tensor. Move the line, and set culprit.")
    _trained_together(run)
    norms = values_of(run, "conv")[0]
    if len(set(norms[: _THAWS - 1])) > 1:
        raise NotYet(f"the convolution is trained from the start; step {_THAWS} was wanted.")
    if len(set(norms[_THAWS:])) < 2:
        raise NotYet("the convolution is never trained.")
    called = values_of(run, "line")[0] if "line" in run.metrics else []
    if not any(steps > _THAWS for steps in called):
        when = "speaks too early" if called else "is gone"
        raise NotYet(
            f"the fault is mended, and your line {when}: the next one would pass in silence."
        )
    words = f"{named} is frozen until step {_THAWS}, then trained, and the spread is 0 throughout"
    if "twice" in run.metrics:
        return f"{words}; but DDP wraps a DDP, and its keys begin with module.module."
    return f"{words}."
