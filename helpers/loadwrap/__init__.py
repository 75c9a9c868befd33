"""Load, then wrap: start real torchrun jobs from a notebook and watch every rank.

Importing this package is cheap on purpose: inside a rank, ``from loadwrap import log``
must start no process and import neither torch nor matplotlib. The names below are
therefore imported at their first use.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .lazy import offer

if TYPE_CHECKING:
    from .curves.compare import first_difference, plot_runs
    from .curves.record import log
    from .jobs.errors import JobFailed, JobStalled, JobStopped, LaunchError
    from .jobs.notebook.source import as_file
    from .run import Run, torchrun

__version__ = "0.1.0"

__all__ = [
    "JobFailed",
    "JobStalled",
    "JobStopped",
    "LaunchError",
    "Run",
    "as_file",
    "first_difference",
    "log",
    "plot_runs",
    "torchrun",
]

_HOME = {
    "JobFailed": "jobs.errors",
    "JobStalled": "jobs.errors",
    "JobStopped": "jobs.errors",
    "LaunchError": "jobs.errors",
    "Run": "run",
    "as_file": "jobs.notebook.source",
    "first_difference": "curves.compare",
    "log": "curves.record",
    "plot_runs": "curves.compare",
    "torchrun": "run",
}


__getattr__, __dir__ = offer(__name__, globals(), _HOME)


def load_ipython_extension(shell: Any) -> None:
    """Registers ``%%torchrun`` (``%load_ext loadwrap``; importing the package does it too)."""
    from .magic import register

    register(shell)


def _on_import() -> None:
    if "RANK" in os.environ:
        # A rank never starts anything; it only becomes able to say where it stands.
        from .folder import RUN_ENV

        if RUN_ENV in os.environ:
            from .jobs.stacks import register as register_stacks

            register_stacks()
        return
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return
    load_ipython_extension(shell)
    if getattr(shell, "kernel", None) is not None:
        from .jobs.client import warm_up

        warm_up()


_on_import()
