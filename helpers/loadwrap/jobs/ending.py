"""Ends a rank's process: as Python does, without the part that only costs.

Python's own clean-up takes a third of a second of each rank for the libraries that the host
had loaded, and that are the same in every rank. Where nothing of the script's could notice, the
rank ends after the script's own part of it: threads joined, ``atexit`` run, streams flushed,
the objects of the script's modules freed. In every other case Python's own clean-up runs, so
that what it would show in a terminal shows here as well: a process group that was never
destroyed (which may crash or hang a rank at exit), CUDA, a thread that is still running.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading


def leave_if_nothing_is_lost(loaded: frozenset[str]) -> None:
    """Ends the process with exit code 0, or returns if Python has to end it.

    Args:
        loaded: The modules that were there before the script ran.
    """
    torch = sys.modules.get("torch")
    if torch is not None and (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        or torch.cuda.is_initialized()
    ):
        return
    threading._shutdown()  # type: ignore[attr-defined]  # joins what is no daemon, as Python does
    pool = "concurrent.futures.process"  # joins its processes in ways of its own
    if threading.active_count() > 1 or (pool in sys.modules and pool not in loaded):
        return
    atexit._run_exitfuncs()
    for name in [name for name in reversed(sys.modules) if name not in loaded]:
        vars(sys.modules[name]).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            continue  # the script closed or replaced it
    os._exit(0)


def end_by_interrupt(error: BaseException) -> None:
    """Ends the process by SIGINT after a KeyboardInterrupt, as Python does, so its parent can tell.

    Python would forget the interrupt here: it does so when code is compiled during ``atexit``, and
    torch._dynamo, which the host has loaded and the script perhaps has not, imports modules then.
    """
    sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            continue
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
