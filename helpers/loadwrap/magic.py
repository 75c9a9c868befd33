"""``%%torchrun``: a cell that is itself the script which every rank runs."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .jobs.errors import LaunchError
from .jobs.options import OPTIONS

_USAGE = """\
%%torchrun [torchrun's options] [ours] [-- the script's arguments]

The cell below the line is the script. torchrun's options are written as for torchrun:
    %%torchrun --nproc-per-node 4 --max-restarts 1

Ours:
    --as NAME            the variable that gets the run (default: run)
    --quiet              wait for the end without a figure
    --background         return at once; run.wait(), run.stop() and run.follow() do the rest
    --cold               start the plain torchrun command instead of forking warm ranks
    --pattern REGEX      read the metrics from what the ranks print
    --metric NAME        draw this metric (default: loss)
    --stall-timeout S    stop the job when it has been silent for S seconds
    --runs FOLDER        make the run's folder in there (default: runs)\
"""
_SWITCHES = {"quiet", "background", "cold", "help"}
_VALUES = {"as", "pattern", "metric", "stall-timeout", "runs"}


@dataclass
class _Line:
    torchrun: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


def parse(line: str) -> _Line:
    """Splits the line of the magic into torchrun's options, ours, and the script's arguments.

    Raises:
        LaunchError: An option is not known, or lacks its value.

    Example:
        >>> found = parse("--nproc-per-node 4 --quiet -- --steps 10")
        >>> found.torchrun, sorted(found.ours), found.arguments
        ({'nproc_per_node': '4'}, ['quiet'], ['--steps', '10'])
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise LaunchError(f"The line of %%torchrun cannot be read: {error}.") from None
    found = _Line()
    while words:
        word = words.pop(0)
        if word == "--":
            found.arguments = words
            break
        if not word.startswith("-"):
            raise LaunchError(
                f"%%torchrun does not know what {word} is for: the cell is the script, and its "
                "arguments come after `--`."
            )
        name, equals, value = word.lstrip("-").partition("=")
        if name in _SWITCHES:
            if equals:
                raise LaunchError(f"--{name} takes no value.")
            found.ours[name] = ""
            continue
        option = name.replace("-", "_")
        if name not in _VALUES and not OPTIONS.get(option, True):
            found.torchrun[option] = True
            continue
        if not equals:
            if not words or words[0].startswith("--"):
                if name not in _VALUES and option not in OPTIONS:
                    found.torchrun[option] = True  # torchrun(...) names it, and what is near it
                    continue
                raise LaunchError(f"--{name} needs a value.")
            value = words.pop(0)
        if name in _VALUES:
            found.ours[name] = value
        else:
            found.torchrun[option] = value
    return found


def run_cell(line: str, cell: str, namespace: dict[str, Any]) -> None:
    """Runs a cell as a torchrun script and puts the run into the notebook's variables.

    Args:
        line: What follows ``%%torchrun``.
        cell: The lines below it.
        namespace: The notebook's variables.
    """
    from .jobs.notebook.cells import write_cell
    from .run import torchrun

    found = parse(line)
    if "help" in found.ours:
        print(_USAGE)
        return
    name = found.ours.get("as", "run")
    if not name.isidentifier():
        raise LaunchError(f"--as needs the name of a variable, not {name}.")
    if found.torchrun.keys() & {"m", "module", "no_python", "run_path"}:
        raise LaunchError("%%torchrun runs the cell itself; use torchrun(...) to run a module.")
    runs = found.ours.get("runs", "runs")
    try:
        script = write_cell(cell, Path(runs) / "cells", "cell")
    except OSError as error:
        raise LaunchError(
            f"The cell cannot be written to {runs}/cells: {error.strerror}."
        ) from None
    path = os.pathsep.join(filter(None, (".", os.environ.get("PYTHONPATH"))))
    run = torchrun(
        os.path.relpath(script),
        *found.arguments,
        live=False,
        warm="cold" not in found.ours,
        stall_timeout=_seconds(found.ours.get("stall-timeout")),
        pattern=found.ours.get("pattern"),
        metric=found.ours.get("metric", "loss"),
        env={"PYTHONPATH": path},  # what lies beside the notebook can be imported, as from a file
        runs=runs,
        **found.torchrun,
    )
    namespace[name] = run  # before the end: a failed run can be looked at, too
    if "background" in found.ours:
        return
    if "quiet" in found.ours:
        run.wait()
    else:
        run.follow()


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise LaunchError(f"--stall-timeout needs a number of seconds, not {text}.") from None


def register(shell: Any) -> None:
    """Makes ``%%torchrun`` known to an IPython shell."""

    def magic(line: str, cell: str | None = None) -> None:
        if cell is None and "--help" in line.split():
            print(_USAGE)
            return
        if cell is None:
            raise LaunchError("%torchrun has no script: write %%torchrun at the top of a cell.")
        run_cell(line, cell, shell.user_ns)

    magic.__doc__ = _USAGE
    shell.register_magic_function(magic, "line_cell", "torchrun")
