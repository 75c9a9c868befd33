"""A real notebook kernel, driven as JupyterLab drives it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

Observer = Callable[[dict[str, Any], int], None]


class CellFailed(RuntimeError):
    """A cell raised; its traceback is the message."""


class Notebook:
    """A kernel in a folder; made by ``opened``."""

    def __init__(self, manager: KernelManager) -> None:
        self.pid = manager.provisioner.process.pid
        self._client = manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def cell(self, code: str, timeout: float = 120, observe: Observer | None = None) -> str:
        """Runs a cell and returns what it printed.

        Args:
            code: The cell.
            timeout: Seconds after which it is given up.
            observe: Is called with every message of the cell and the moment (``time_ns``) at
                which it arrived.

        Raises:
            CellFailed: The cell raised, or it ran for too long.
        """
        request = self._client.execute(code)
        printed, failure, end = "", "", time.monotonic() + timeout
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(end - time.monotonic(), 0.01))
            except Empty:
                raise CellFailed(f"no end after {timeout:.0f} s:\n{code}") from None
            arrived = time.time_ns()
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if observe:
                observe(message, arrived)
            if kind == "stream" and content["name"] == "stdout":
                printed += content["text"]
            elif kind == "error":
                failure = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                break
        if failure:
            raise CellFailed(failure)
        return printed

    def value(self, code: str, timeout: float = 120, observe: Observer | None = None) -> Any:
        """Runs a cell whose last expression, in a line of its own, is returned by way of JSON."""
        *lines, last = code.strip().splitlines()
        code = "\n".join([*lines, f"import json; print(json.dumps({last}))"])
        return json.loads(self.cell(code, timeout, observe).splitlines()[-1])

    def close(self) -> None:
        self._client.stop_channels()


@contextmanager
def opened(folder: Path) -> Iterator[Notebook]:
    """Starts a kernel in a folder; ends it, and its host with it, on leaving."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(
        cwd=str(folder), env=environment(), extra_arguments=["--IPKernelApp.log_level=ERROR"]
    )
    notebook = None
    try:
        notebook = Notebook(manager)
        yield notebook
    finally:
        if notebook:
            notebook.close()
        manager.shutdown_kernel(now=True)


def environment(**more: object) -> dict[str, str]:
    """Returns this terminal's environment without what would change a measurement."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONUNBUFFERED", "MPLBACKEND", "RANK", "LOADWRAP_RUN")
    }
    env["JUPYTER_PREFER_ENV_PATH"] = "1"
    return env | {name: str(value) for name, value in more.items()}
