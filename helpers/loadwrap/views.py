"""How a running job shows itself: as a figure in a notebook, as lines elsewhere, or not at all."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .jobs.tracebacks import shortened

if TYPE_CHECKING:
    from .reading import Reader
    from .run import Run

_LINE_EVERY = 2.0  # seconds between two progress lines outside a notebook
_MOST_LINES = 40  # of each rank's output, for a script that logs nothing


@dataclass(frozen=True)
class Shown:
    """What of a run is drawn, and the lines that are drawn with it."""

    metric: str = "loss"
    resumed_at: float | None = None
    predicted: float | None = None


class View:
    """What the loop that attends a job calls."""

    def begin(self) -> None:
        """The job has been started."""

    def show(self, reader: Reader, run: Run) -> None:
        """Some time has passed."""

    def say(self, line: str) -> None:
        """Shows one line now."""
        print(line, flush=True)

    def end(self, reader: Reader, run: Run) -> None:
        """The job is over."""


class Silent(View):
    """Shows nothing but what must be said."""


class Console(View):
    """Progress lines, for a terminal or a log."""

    def __init__(self, shown: Shown, command: str) -> None:
        """Shows one metric of a run that was started by ``command``."""
        self._metric = shown.metric
        self._command = command
        self._next = 0.0
        self._told: object = None

    def begin(self) -> None:
        """Prints the command."""
        if self._command:
            print(f"$ {_from_here(self._command)}", flush=True)

    def show(self, reader: Reader, run: Run) -> None:
        """Prints where the run stands, every two seconds, if it has moved."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY
            self._line(reader)

    def end(self, reader: Reader, run: Run) -> None:
        """Prints where the run ended."""
        self._line(reader)
        if not reader.curves.metrics:
            tell_unmatched(reader)
            print_outputs(reader)

    def _line(self, reader: Reader) -> None:
        curves = reader.curves
        if self._metric not in curves.metrics:
            return
        steps, values = curves.mean(self._metric)
        ranks = len(curves.curve(self._metric))
        if len(steps) and (steps[-1], values[-1], ranks) != self._told:
            self._told = steps[-1], values[-1], ranks
            of = "1 rank" if ranks == 1 else f"mean of {ranks} ranks"
            print(f"step {steps[-1]} · {self._metric} {values[-1]:.4g} ({of})", flush=True)


class Notebook(View):
    """One figure below the cell, redrawn while the job runs."""

    def __init__(self, shown: Shown, command: str) -> None:
        """Makes the figure; it appears with ``begin``."""
        from .curves.figure import LiveFigure

        self._command = command
        self._figure = LiveFigure(
            shown.metric, "", resumed_at=shown.resumed_at, predicted=shown.predicted
        )
        self._started = time.monotonic()

    def begin(self) -> None:
        """Prints the command."""
        if self._command:
            print(f"$ {_from_here(self._command)}", flush=True)

    def show(self, reader: Reader, run: Run) -> None:
        """Redraws the figure if there is time for it and reason to."""
        if self._figure.due():
            self._figure.draw(reader.curves, self._status(run))

    def end(self, reader: Reader, run: Run) -> None:
        """Draws the figure that stays, and says in words what it shows."""
        self._figure.finish(reader.curves, self._status(run))
        if reader.curves.metrics:
            print(self._figure.describe(reader.curves), flush=True)
        else:
            tell_unmatched(reader)
            print_outputs(reader)

    def _status(self, run: Run) -> str:
        state = run.state
        if state == "running" and run.starting:
            return "starting: importing torch once for all jobs"
        return f"{state} · {time.monotonic() - self._started:.1f} s"


def _from_here(command: str) -> str:
    """Shortens paths below the working folder; the line still does the same."""
    return command.replace(os.path.join(os.getcwd(), ""), "")


def tell_unmatched(reader: Reader) -> None:
    """Says so where a pattern never matched: an empty figure would not tell why."""
    if lines := reader.unmatched:
        print(f"The pattern matched none of the {lines:,} lines that the ranks printed:")


def print_outputs(reader: Reader) -> None:
    """Prints what each rank printed, rank by rank: mixed, lines of several ranks would glue."""
    for rank in reader.ranks():
        lines = reader.output(rank, "stdout").splitlines()
        for line in lines[-_MOST_LINES:]:
            print(f"[rank {rank}] {shortened(line)}")
        if len(lines) > _MOST_LINES:
            print(
                f"[rank {rank}] … the last {_MOST_LINES} of {len(lines)} lines: run.stdout({rank})"
            )
    sys.stdout.flush()


def view(shown: Shown, command: str) -> View:
    """Returns the view that suits the place: a notebook's kernel, or anything else."""
    return (Notebook if in_notebook() else Console)(shown, command)


def in_notebook() -> bool:
    """Tells whether this process is the kernel of a notebook."""
    shell = shell_of_this_process()
    return shell is not None and getattr(shell, "kernel", None) is not None


def shell_of_this_process() -> Any:
    """Returns IPython's shell, or None outside IPython; never imports IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
