"""Exercise checks of lesson 04: the guard after a resume, and orders that bring everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.errors import JobFailed, JobStalled, JobStopped
from .verdicts import NotYet, judge, listed, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["check_guard", "check_resume"]

_NEAR = 0.3  # how near the first loss is to the right one's, if the weights arrived
_EQUAL = 2e-3  # how near all losses are, if everything arrived: a GPU may differ in late digits


def check_guard(cure: Run, right: Run) -> None:
    """Exercise 1: the guard stops the cure before its first step, and lets the right order train.

    Args:
        cure: A run that loads on rank 0 and then wraps, under the learner's guard.
        right: A run in which every rank loads, under the same guard.
    """
    judge(_guard, cure, right)


def check_resume(run: Run, right: Run) -> None:
    """Exercises 2 and 3: the resumed run is that of the right order, and its ranks stay together.

    Args:
        run: The learner's run, which logged ``loss``, ``lr`` and ``distance``.
        right: The run of the right order with the same arguments.
    """
    judge(_resume, run, right)


def _guard(cure: Run, right: Run) -> str:
    try:
        waited(right)
    except NotYet as why:
        cure.stop()  # it may stand still as well
        raise NotYet(f"under it the right order does not train: {why}") from None
    try:
        cure.wait()
    except JobFailed:
        pass
    except (JobStalled, JobStopped):
        waited(cure)  # says where its ranks stand
    else:
        raise NotYet("the cure got past it and trained, with an optimizer state on rank 0 only.")
    if "loss" in cure.metrics:
        raise NotYet("it stops the cure, but only after a step.")
    return "the cure is stopped before its first step, and the right order trains."


def _resume(run: Run, right: Run) -> str:
    waited(run)
    if not {"loss", "lr", "distance"} <= set(run.metrics):
        raise NotYet("the run must log a loss and, with --distance-every, a distance.")
    losses, distances = run.curve("loss"), run.curve("distance")
    if losses.keys() != right.curve("loss").keys():
        raise NotYet(f"this ran on {len(losses)} ranks instead of {len(right.ranks)}.")
    strangers, rates, others = [], [], []
    for rank, (steps, values) in losses.items():
        expected = right.curve("loss")[rank][1]
        if len(values) != len(expected):
            raise NotYet(f"rank {rank} took {len(steps)} steps instead of {len(expected)}.")
        if not abs(values[0] - expected[0]) < _NEAR:
            strangers.append(rank)
        if (run.curve("lr")[rank][1] != right.curve("lr")[rank][1]).any():
            rates.append(rank)
        if not (abs(values - expected) < _EQUAL).all():
            others.append(rank)
    if strangers:
        raise NotYet(f"{listed(strangers)} of {len(losses)} did not resume from the checkpoint.")
    apart = [rank for rank, (_, far) in distances.items() if far.any()]
    if apart:
        first = min(steps[far > 0][0] for steps, far in distances.values() if far.any())
        raise NotYet(
            f"the first losses are right, but by step {first} {listed(apart)} of {len(losses)} "
            "had left rank 0: some state did not arrive there."
        )
    if rates:
        raise NotYet(f"{listed(rates)} did not resume at the saved learning rate.")
    if others:
        raise NotYet(
            "the ranks stay together, but they leave the run of the right order: "
            "what did none of them load?"
        )
    return (
        f"all {len(losses)} ranks resume with the saved weights, optimizer state and learning "
        "rate, and stay one model."
    )
