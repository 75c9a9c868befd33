"""How a check speaks: one line that starts with "Not yet" or "Yes"."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..jobs.errors import JobFailed, JobStalled, JobStopped

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["NotYet", "judge", "listed", "result_of", "waited"]


class NotYet(Exception):
    """What is still missing from a learner's answer, in one sentence."""


def judge(check: Callable[..., str], *arguments: object) -> None:
    """Runs a check and prints its verdict.

    Args:
        check: Returns why the answer is right, or raises :class:`NotYet` with what differs.
        arguments: What the check gets.

    Example:
        >>> judge(lambda answer: "it is the answer.", 42)
        Yes: it is the answer.
    """
    try:
        print(f"Yes: {check(*arguments)}")
    except NotYet as difference:
        print(f"Not yet: {difference}")


def result_of(function: Callable[..., Any], *arguments: object) -> Any:
    """Calls a learner's function; what it raises becomes a :class:`NotYet`."""
    try:
        return function(*arguments)
    except Exception as error:
        name = getattr(function, "__name__", "your function")
        first_line = str(error).partition("\n")[0].rstrip(":. ")  # a verdict is one line
        raise NotYet(f"{name} raised {type(error).__name__}: {first_line}.") from None


def waited(run: Run) -> Run:
    """Returns the run when it has ended; a run that did not finish becomes a :class:`NotYet`."""
    try:
        return run.wait()
    except JobFailed as failure:
        raise NotYet(f"the job failed, and rank {failure.rank} was the first.") from None
    except (JobStalled, JobStopped):
        raise NotYet("the job was stopped before its end.") from None


def listed(ranks: list[int]) -> str:
    """Returns the ranks as text: ``rank 1``, ``ranks 1, 2, 3``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
