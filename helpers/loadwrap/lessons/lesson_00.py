"""Exercise checks of lesson 00: what did each rank log, read and end with?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .verdicts import NotYet, judge, listed, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["check_contract", "check_curves", "check_parts"]


def check_curves(run: Run) -> None:
    """Exercise 1: every rank has a curve of ``loss``, and they are not copies of one another.

    Args:
        run: The learner's run.
    """
    judge(_curves, run)


def check_parts(run: Run, culprit: object) -> None:
    """Exercise 2: the rank that failed first was found, and now every rank reads a part.

    Args:
        run: The learner's run, which may have failed.
        culprit: The rank that the learner names.
    """
    judge(_parts, run, culprit)


def check_contract(run: Run) -> None:
    """Exercise 3: different data on every rank, and one model in the end.

    Args:
        run: The learner's run, whose ranks print lines of a name and a value.
    """
    judge(_contract, run)


def _curves(run: Run) -> str:
    waited(run)
    if "loss" not in run.metrics:
        raise NotYet("no rank logged a loss.")
    curves = run.curve("loss")
    silent = [rank for rank in run.ranks if rank not in curves]
    if silent:
        raise NotYet(f"{listed(silent)} of {len(run.ranks)} logged nothing.")
    if len({tuple(values.tolist()) for _, values in curves.values()}) < len(curves):
        raise NotYet("two ranks logged the same curve; each has a loss of its own.")
    return f"all {len(curves)} ranks have a curve, and no two are alike."


def _parts(run: Run, culprit: object) -> str:
    if culprit is None:
        raise NotYet("which rank failed first? parts.wait() tells you; set culprit to it.")
    if type(culprit) is not int:
        raise NotYet(f"culprit is a rank's number, such as 0, and not {culprit!r}.")
    if culprit != 3:
        raise NotYet(f"rank {culprit} did not fail first: whose own error is the KeyError?")
    try:
        waited(run)
    except NotYet as unmended:
        raise NotYet(f"rank 3 is right. Now mend the script and run it again: {unmended}") from None
    printed = {rank: run.stdout(rank).split() for rank in run.ranks}
    without = [
        rank
        for rank, words in printed.items()
        if words[:2] != ["I", "read"] or len(words) < 3 or "None" in words
    ]
    if without:
        raise NotYet(f"{listed(without)} ended, but read nothing.")
    if len(printed) != 4:
        raise NotYet(f"this ran on {len(printed)} ranks instead of 4.")
    return "rank 3 had no part; now all 4 ranks read one, and the job finishes."


def _contract(run: Run) -> str:
    waited(run)
    seen = {rank: dict(_pairs(run.stdout(rank))) for rank in run.ranks}
    names = ("wrapped", "loss", "trained")
    for rank, values in seen.items():
        missing = [name for name in names if name not in values]
        if missing:
            raise NotYet(f"rank {rank} no longer prints its {missing[0]!r} line.")
    different = {name: len({values[name] for values in seen.values()}) for name in names}
    if len(seen) != 4:
        raise NotYet(f"this ran on {len(seen)} rank{'s' if len(seen) > 1 else ''} instead of 4.")
    if different["loss"] == 1:
        raise NotYet("every rank sees the same data now; that hides the fault.")
    if all(values["trained"] == values["wrapped"] for values in seen.values()):
        raise NotYet("the weights are those of the start: nothing was trained.")
    if different["trained"] > 1:
        raise NotYet(f"the 4 ranks end with {different['trained']} different models.")
    return "different data, one averaged gradient, one rate: the 4 ranks end with one model."


def _pairs(text: str) -> list[tuple[str, str]]:
    words = (line.split(maxsplit=1) for line in text.splitlines())
    return [(pair[0], pair[1]) for pair in words if len(pair) == 2]
