"""How a check speaks: one line that starts with "Not yet" or "Yes"."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..jobs.errors import JobFailed, JobStalled, JobStopped
from ..jobs.tracebacks import last_line, shortened

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
    except JobStopped:
        print("Not yet: the job was stopped before its end.")
    except Exception as error:  # an answer that nobody foresaw is no reason for a traceback
        told = f"{type(error).__name__}: {_in_a_line(str(error))}"
        print(f"Not yet: this check cannot judge such an answer ({shortened(told, 300)}).")


def result_of(function: Callable[..., Any], *arguments: object) -> Any:
    """Calls a learner's function; what it raises becomes a :class:`NotYet`."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        name = getattr(function, "__name__", "your function")
        told = _in_a_line(str(error))
        raise NotYet(f"{name} raised {type(error).__name__}: {told}.") from None


def _in_a_line(error: str) -> str:
    """Returns an error's first line, and the names that its others begin with."""
    return "; ".join([error.partition("\n")[0].rstrip(":. "), *_first_names(error)])


def _first_names(error: str) -> list[str]:
    """Returns what tells most of load_state_dict's error: the first name of each of its lists."""
    found = re.findall(r'(Missing|Unexpected) key\(s\) in state_dict: ("[^"]+"(,)?)', error)
    told = [f"{kind.lower()}: {name}{' …' if more else ''}" for kind, name, more in found]
    return told + re.findall(r"(size mismatch for [^:]+)", error)[:1]


def waited(run: Run) -> Run:
    """Returns the run when it has ended; a run that did not finish becomes a :class:`NotYet`."""
    try:
        return run.wait()
    except JobFailed as failure:
        if failure.rank is None:
            raise NotYet(f"the job failed. {failure.headline.splitlines()[0]}") from None
        told = _in_a_line(last_line(failure.traceback)) or failure.headline.partition(": ")[2]
        first = f"rank {failure.rank} was the first: {shortened(told.rstrip('. '), 300)}"
        raise NotYet(f"the job failed, and {first}.") from None
    except JobStalled as stall:
        where = f": {stall.report}" if stall.report else ""
        rule = "Every rank makes a collective call, or none does."
        raise NotYet(f"the ranks stand still{where}. {rule}") from None
    except JobStopped:
        raise NotYet("the job was stopped before its end.") from None


def listed(ranks: list[int]) -> str:
    """Returns the ranks as text: ``rank 1``, ``ranks 1, 2, 3``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
