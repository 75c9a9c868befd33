"""What the warm host imports before its first job."""

from __future__ import annotations

import gc
import os
import threading
import weakref

# Imported before the first job. torch._dynamo and torch.optim would otherwise cost each rank two
# seconds at its first optimizer. Nothing here bears a name that a user's own file may have.
_PRELOAD = (
    *("torch", "torch._dynamo", "torch.optim", "torch.utils.data", "torch.distributed"),
    *("torch.nn.parallel", "torch.distributed.run", "numpy", "sklearn.datasets"),
)
_LOOK_EVERY = 0.2  # seconds between two looks at the kernel's pid


def preload(parent: int) -> None:
    """Imports what every job needs, leaving at once should the kernel end meanwhile."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if os.getppid() != parent:
                os._exit(0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    gc.disable()  # modules are made to stay: to look for garbage among them takes a quarter of it
    for name in _PRELOAD:
        try:
            __import__(name)
        except Exception:
            if name.startswith("torch"):
                raise
            continue  # numpy and scikit-learn are not everybody's
    done.set()
    watcher.join()
    # What torch would take apart at exit (its operators, 32 ms of each rank) goes with the process.
    for finalizer in list(vars(weakref.finalize)["_registry"]):
        finalizer.atexit = False
    gc.freeze()  # a collection in a rank would touch, and so copy, every page shared with us
    gc.enable()
