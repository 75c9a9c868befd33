"""``log``: one line per record, from inside a rank.

The file is the whole interface: one JSON object a line, appended by a single ``write``, so
that whoever follows it sees whole records in order, whatever else the rank is doing.
"""

from __future__ import annotations

import atexit
import contextlib
import operator
import os
import sys
import threading
import time
from typing import Any

from ..folder import RUN_ENV, metrics_file

_RESERVED = frozenset({"step", "header"})
_LARGEST = 2**63 - 1
_LOOK_AGAIN_S = 1.0


def log(step: int, **metrics: Any) -> None:
    """Appends one record of this rank's metrics to the run's folder.

    Without a run folder in the environment (``LOADWRAP_RUN``, set by the launcher) it does
    nothing, so that the same script also runs under a bare ``torchrun``. It never stops a
    training: where the disk is full or the folder has gone, it says so once on stderr, counts
    the records that were lost (see :func:`dropped`) and goes on.

    Args:
        step: The training step, an integer. It may go back after a restart.
        **metrics: Any names; each value one number: a Python or numpy number, or a tensor
            with one element on any device. NaN and infinities are kept. Floats come back
            from ``Run.curve`` exactly as they were.

    Raises:
        TypeError: If the step is no integer or a metric is no number.
        ValueError: If a metric has several elements, is called ``header``, or if a number is
            too large to be kept.

    Example:
        >>> from loadwrap import log
        >>> for step in range(3):
        ...     log(step, loss=1.0 / (step + 1), lr=0.1)
    """
    if _sink is None and not _open():
        return
    # Written by hand: json.dumps costs three times as much, and this runs in every step.
    plain = type(step) is int and -_LARGEST <= step <= _LARGEST
    line = '{"step": ' + (str(step) if plain else _step_text(step))
    for name, value in metrics.items():
        text = repr(value) if type(value) is float else _number_text(name, value)
        # x - x is NaN, which is true, exactly for NaN and the infinities.
        if type(value) is float and value - value:
            text = _NON_FINITE[text]
        line += (_key_text.get(name) or _key(name)) + text
    _sink.write((line + "}\n").encode())  # type: ignore[union-attr]


def dropped() -> int:
    """Returns how many records of this process could not be written."""
    return _sink.dropped if _sink is not None else 0


class _Sink:
    """One rank's file, opened for appending; survives a full disk and a fork."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.dropped = 0
        self._fd = -1
        self._identity = (0, 0)
        self._broken_line = False
        self._warned = False
        self._look_at = 0.0
        self._said_header = False
        self._lock = threading.Lock()

    def write(self, record: bytes) -> None:
        """Appends one whole line, in one call so that nothing can come between its bytes."""
        now = time.monotonic()
        if now >= self._look_at:
            with self._lock:
                if now >= self._look_at:
                    self._look(now)
        if self._fd < 0:
            self.dropped += 1
            return
        if self._broken_line:
            record = b"\n" + record
        try:
            written = os.write(self._fd, record)
        except OSError as error:
            self._lose(error)
            return
        self._broken_line = written != len(record)
        if self._broken_line:
            # The next record starts on a line of its own: two records never become one.
            self._lose(OSError(0, "the disk took only part of the record"))

    def _look(self, now: float) -> None:
        """Opens the file, or finds that it was deleted under us; about once a second."""
        self._look_at = now + _LOOK_AGAIN_S
        try:
            if self._fd >= 0:
                status = os.fstat(self._fd)
                ours = (status.st_dev, status.st_ino) == self._identity
                if ours and status.st_nlink > 0:
                    return
                fd, self._fd = self._fd, -1
                if ours:  # else somebody closed ours, and the number is another file's now
                    os.close(fd)
            # The folder is made for a first record only: one that has gone stays gone.
            if not self._said_header:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            status = os.fstat(fd)
            self._identity = status.st_dev, status.st_ino
            self._broken_line = _ends_in_mid_line(fd, status.st_size)
            self._fd = fd
            if status.st_size == 0 or not self._said_header:
                self._said_header = True
                self._write_header()
        except OSError as error:
            self._warn(error)

    def _write_header(self) -> None:
        import json
        import socket

        header = {
            "rank": _from_environment("RANK", 0),
            "local_rank": _from_environment("LOCAL_RANK", 0),
            "world_size": _from_environment("WORLD_SIZE", 1),
            "attempt": _from_environment("TORCHELASTIC_RESTART_COUNT", 0),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time_ns": time.time_ns(),
        }
        line = b"\n" * self._broken_line + json.dumps({"header": header}).encode() + b"\n"
        self._broken_line = os.write(self._fd, line) != len(line)

    def _lose(self, error: OSError) -> None:
        self.dropped += 1
        self._warn(error)

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        reason = error.strerror or str(error)
        _tell(
            f"loadwrap: could not write {self.path} ({reason}); the training goes on without "
            "these records: free space on that disk, or choose another folder for the runs."
        )

    def after_fork(self) -> None:
        """Gives a forked child (a DataLoader worker) a descriptor and a lock of its own."""
        self._lock = threading.Lock()
        self._look_at = 0.0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_sink: _Sink | None = None
_opening = threading.Lock()
_key_text: dict[str, str] = {}
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _open() -> bool:
    global _sink
    run = os.environ.get(RUN_ENV)
    if not run:
        return False
    with _opening:
        if _sink is None:
            path = metrics_file(os.path.abspath(run), _from_environment("RANK", 0))
            _sink = _Sink(str(path))
    return True


def _from_environment(name: str, default: int) -> int:
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        return default


def _ends_in_mid_line(fd: int, size: int) -> bool:
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _key(name: str) -> str:
    """Returns ``, "name": `` as JSON, remembered: a script uses few names, many times."""
    import json

    if name in _RESERVED:
        raise ValueError(f"a metric cannot be called {name!r}: give it another name in log().")
    if len(_key_text) > 10_000:
        _key_text.clear()
    text = _key_text[name] = f", {json.dumps(name)}: "
    return text


def _step_text(step: Any) -> str:
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise TypeError(f"log() needs an integer step, not {_what(step)}: write int(step).")
    try:
        index = operator.index(step)
    except Exception as error:
        raise TypeError(f"log() needs an integer step, not {_what(step)}.") from error
    if not -_LARGEST <= index <= _LARGEST:
        raise ValueError("log() keeps steps as 64-bit integers: this step is too large.")
    return str(index)


def _number_text(name: str, value: Any) -> str:
    """Returns a number that is not a plain float as JSON text."""
    number = value
    if not isinstance(number, (int, float)) and hasattr(number, "item"):
        try:
            number = number.item()  # numpy scalars, tensors on any device
        except Exception as error:
            raise ValueError(
                f"metric {name!r} must be one number, not {_what(value)}: "
                f"log its mean, such as {name}.mean()."
            ) from error
    if isinstance(number, (str, bytes, bytearray, complex)) or number is None:
        raise TypeError(f"metric {name!r} must be a number, not {_what(value)}.")
    try:
        as_float = float(number)
    except OverflowError as error:
        raise ValueError(f"metric {name!r} is too large for a float64.") from error
    except Exception as error:
        raise TypeError(f"metric {name!r} must be a number, not {_what(value)}.") from error
    if isinstance(number, int) and -_LARGEST <= number <= _LARGEST:
        return str(int(number))
    text = float.__repr__(as_float)
    return _NON_FINITE.get(text, text)


def _what(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and len(tuple(shape)):
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:37]}..."


def _tell(sentence: str) -> None:
    with contextlib.suppress(Exception):  # a closed stderr must not end a training either
        sys.stderr.write(sentence + "\n")


def _forget_descriptor() -> None:
    global _opening
    _opening = threading.Lock()
    if _sink is not None:
        _sink.after_fork()


os.register_at_fork(after_in_child=_forget_descriptor)


@atexit.register
def _report_dropped() -> None:
    if _sink is not None and _sink.dropped:
        _tell(f"loadwrap: {_sink.dropped} records are missing from {_sink.path}.")
