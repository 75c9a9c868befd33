"""Exercise checks of lesson 01: the height, the evidence, the mended resume."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .verdicts import NotYet, judge, listed, result_of, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["check_evidence", "check_height", "check_resume"]

Losses = Mapping[int, float]  # of each rank, at one step

_CLEAR = 0.3  # how far apart a number must be with and without the fault
_NEAR = 0.5  # how near a loaded rank's first loss is to the checkpoint's
_SAME_MODEL = 0.01  # how near its accuracy is: of one model, evaluated twice


def check_height(first_loss: Callable[[float, int, int], float], is_this_bug: object) -> None:
    """Exercise 1: the formula, and what it says about the colleague's run.

    Args:
        first_loss: The learner's function of the loss before, the classes and the ranks.
        is_this_bug: The learner's verdict, True or False.
    """
    judge(_height, first_loss, is_this_bug)


def check_evidence(
    evidence: Callable[[Losses], float], broken: Sequence[Losses], healthy: Losses
) -> None:
    """Exercise 2: one number that tells a broken resume from a healthy one at its first step.

    Args:
        evidence: The learner's function of every rank's first loss.
        broken: Every rank's first loss after broken resumes on several ranks.
        healthy: The same after a healthy one.
    """
    judge(_evidence, evidence, broken, healthy)


def check_resume(run: Run, before: float, accuracy: float) -> None:
    """Exercise 3: every rank resumes at the checkpoint's loss, and all hold one model.

    Any order that brings the weights to every rank passes; the optimizer's state is not judged.

    Args:
        run: The resumed run, which logged ``loss`` and ``distance``.
        before: The loss that the checkpoint had.
        accuracy: The accuracy that it had.
    """
    judge(_resume, run, before, accuracy)


def _height(first_loss: Callable[[float, int, int], float], is_this_bug: object) -> str:
    for before, classes, ranks in ((0.05, 10, 4), (1.2, 100, 2), (0.45, 3000, 8), (0.45, 3000, 1)):
        answer = result_of(first_loss, before, classes, ranks)
        right = (before + (ranks - 1) * math.log(classes)) / ranks
        words = f"for {ranks} rank{'s' * (ranks > 1)}, {classes} classes and {before} before"
        if not hasattr(answer, "__float__"):
            raise NotYet(f"{words} it returns {type(answer).__name__}, not a number.")
        if not math.isclose(answer, right, rel_tol=0.005):
            loaded = "1 rank loaded" if ranks > 1 else "the only rank loaded"
            others = f" and {ranks - 1} did not" if ranks > 1 else ""
            raise NotYet(f"{words} it gives {answer:.2f}, but {loaded}{others}.")
    if is_this_bug is None:
        raise NotYet("the formula is right and gives 7.06; is it your colleague's bug?")
    if type(is_this_bug) is not bool:
        raise NotYet(f"the formula is right; is_this_bug is True or False, not {is_this_bug!r}.")
    if not is_this_bug:
        raise NotYet("the formula gives 7.06, and 7.06 is what your colleague saw.")
    return "1 rank at 0.45 and 7 at ln 3000 have a mean of 7.06. Only one of the 8 ranks loaded."


def _evidence(
    evidence: Callable[[Losses], float], broken: Sequence[Losses], healthy: Losses
) -> str:
    without = result_of(evidence, dict(healthy))
    for losses in broken:
        value = result_of(evidence, dict(losses))
        if _names_a_rank(evidence, losses, value):
            raise NotYet(
                f"on {len(losses)} ranks it is {value}: a rank's number, not its loss. Iterating "
                "over losses gives the ranks; losses.values() has their losses."
            )
        for number in (without, value):
            if not hasattr(number, "__float__"):
                raise NotYet(f"it returns {type(number).__name__}, not a number.")
        if not abs(float(value) - float(without)) > _CLEAR:
            raise NotYet(
                f"on {len(losses)} ranks it is ≈ {float(value):.2f} in the broken resume and "
                f"≈ {float(without):.2f} in the healthy one: nobody could tell them apart."
            )
    seen = ", ".join(
        f"≈ {float(result_of(evidence, dict(losses))):.2f} on {len(losses)} ranks"
        for losses in broken
    )
    return (
        f"it is {seen}, and ≈ {float(without):.2f} in a healthy resume: it depends on ranks that "
        "did not load."
    )


def _names_a_rank(evidence: Callable[[Losses], object], losses: Losses, value: object) -> bool:
    """Tells whether the value counts on by 100 with the numbers of the ranks."""
    if not isinstance(value, int) or value not in losses:
        return False
    try:
        return evidence({rank + 100: loss for rank, loss in losses.items()}) == value + 100
    except Exception:
        return False  # it asks for one of the ranks, and gives that one's loss


def _resume(run: Run, before: float, accuracy: float) -> str:
    waited(run)
    if not {"loss", "distance"} <= set(run.metrics):
        raise NotYet("the run must log a loss and, with --distance-every, a distance.")
    first = {rank: values[0] for rank, (_, values) in run.curve("loss").items()}
    if len(first) < 2:
        raise NotYet("one rank alone cannot show this fault: start at least 2.")
    strangers = [rank for rank, loss in sorted(first.items()) if not loss < before + _NEAR]
    if strangers:
        raise NotYet(f"{listed(strangers)} of {len(first)} did not resume from the checkpoint.")
    for rank, (_, shares) in sorted(run.curve("accuracy").items()):
        if abs(shares[0] - accuracy) > _SAME_MODEL:
            raise NotYet(
                f"rank {rank}'s loss is low, but its model resumed with an accuracy of "
                f"≈ {shares[0]:.2f} instead of ≈ {accuracy:.2f}: not all of it was loaded."
            )
    apart = [rank for rank, (_, far) in sorted(run.curve("distance").items()) if far.any()]
    if apart:
        raise NotYet(f"the losses look right, but {listed(apart)} drift away from rank 0.")
    return (
        f"all {len(first)} ranks resume at the checkpoint's loss and accuracy, and stay one model: "
        "right for the weights, which is all that these can tell."
    )
