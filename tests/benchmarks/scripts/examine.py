"""Examines one file, as ``torch.load(mmap=True)`` or as the doctor; prints seconds and megabytes.

The modules are imported first: what is measured is the work on the file.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable

import psutil


def main(how: str, path: str) -> None:
    work: Callable[[], object]
    if how == "torch":
        import torch

        torch.zeros(1)

        def work() -> object:
            return torch.load(path, mmap=True)

    else:
        import loadwrap.checkpoints.doctoring.examination
        import loadwrap.checkpoints.doctoring.report  # noqa: F401
        from loadwrap.doctor import main as doctor

        def work() -> object:
            with contextlib.redirect_stdout(io.StringIO()):
                return doctor([path])

    process = psutil.Process()
    before = process.memory_info().rss
    start = time.perf_counter()
    kept = work()
    took = time.perf_counter() - start
    grown = (process.memory_info().rss - before) / 1e6
    assert kept or kept == 0
    print(took, grown)


if __name__ == "__main__":
    main(*sys.argv[1:])
