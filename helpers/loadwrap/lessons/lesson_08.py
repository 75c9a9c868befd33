"""Exercise checks of lesson 08: is the resumed run the uninterrupted one, at half the rate too?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ..curves.difference import first_difference
from .verdicts import NotYet, judge, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["check_exact", "check_half", "faults_of"]

_NAMES = {"loss": "the loss", "lr": "the learning rate", "scale": "the scale"}
_AT_THE_END = {"test_loss": "the model", "ema_test_loss": "the moving average"}


def check_exact(run: Run, whole: Run) -> None:
    """Exercises 1 and 3: the resumed run equals the uninterrupted one in all that it logged.

    Args:
        run: The resumed run.
        whole: The uninterrupted one.
    """
    judge(_exact, run, whole)


def check_half(run: Run, whole: Run) -> None:
    """Exercise 2: the first loss is the uninterrupted run's, every rate exactly half of its.

    Args:
        run: The resumed run, with its audit.
        whole: The uninterrupted one.
    """
    judge(_half, run, whole)


def faults_of(run: Run) -> list[str]:
    """Returns the faults that a run's audit named, in its order, each with what was wrong.

    Such as ``["F07 next learning rates", "F06 optimizer state"]``.

    Args:
        run: A run that was started with ``--audit``.

    Raises:
        ValueError: It has printed no audit.
    """
    table = run.stdout(0)
    if "audit of the resume" not in table:
        raise ValueError("this run printed no audit: start it with --audit")
    found = re.findall(r"^  (\S.*?) +FAULT (F\d\d)  ", table, re.M)
    return [f"{code} {what}" for what, code in found]


def _exact(run: Run, whole: Run) -> str:
    start, end = _span(run, whole)
    for name, what in _NAMES.items():  # the first only: which other one tells why is the exercise
        if (difference := first_difference(whole, run, name)) is not None:
            raise NotYet(f"it leaves the uninterrupted run: {what} at step {difference[0]}.")
    for name, what in _AT_THE_END.items():
        for rank, (_, values) in whole.curve(name).items():
            if run.curve(name)[rank][1][-1] != values[-1]:
                raise NotYet(f"all losses are equal, and yet {what} ends as another one.")
    return f"steps {start} to {end}, losses, rates, scale and average: equal to the last bit."


def _half(run: Run, whole: Run) -> str:
    start, end = _span(run, whole)
    for rank, (steps, losses) in whole.curve("loss").items():
        if run.curve("loss")[rank][1][0] != losses[list(steps).index(start)]:
            raise NotYet(f"rank {rank}'s first loss is not that of the uninterrupted run.")
    steps, rates = run.curve("lr")[0]
    wanted = whole.curve("lr")[0][1][-len(rates) :] / 2
    wrong = np.flatnonzero(rates != wanted)
    if len(wrong):
        at = int(wrong[0])
        good = f"is half for {at} step{'s' * (at > 1)} and then " if at else "is "
        share = f"{rates[at] / (2 * wanted[at]):.4g}"
        old = "the whole old one" if share == "1" else f"{share} of the old one"
        raise NotYet(f"the rate {good}{old}, at step {steps[at]}.")
    faults = faults_of(run)
    if faults:
        raise NotYet(f"the rates are right, but the audit names {', '.join(faults)}.")
    return f"the first loss is equal to the last bit, all rates to step {end} are exactly half."


def _span(run: Run, whole: Run) -> tuple[int, int]:
    """Returns the first and the last step of a resumed run that goes as far as the whole one."""
    waited(run)
    curves = run.curve("loss") if "loss" in run.metrics else {}
    if set(curves) != set(whole.curve("loss")):
        raise NotYet("it must run on as many ranks as the uninterrupted run, and log a loss.")
    steps = curves[0][0]
    if steps[0] == 0:
        raise NotYet("it starts again at step 0.")
    if steps[-1] != whole.curve("loss")[0][0][-1]:
        raise NotYet(f"it ends at step {steps[-1]}, the uninterrupted run later.")
    return int(steps[0]), int(steps[-1])
