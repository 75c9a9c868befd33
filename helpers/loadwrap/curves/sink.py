"""The file behind ``log``: whole lines only, whatever the disk does."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

_LOOK_AGAIN_S = 1.0


class Sink:
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
        self._header: dict[str, object] = {}
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
        try:
            if self._still_open():
                return
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
        finally:  # only now: until the file is open, other threads wait rather than lose a record
            self._look_at = now + _LOOK_AGAIN_S

    def _still_open(self, *, keep: bool = True) -> bool:
        """Returns whether the descriptor is good to write to; closes it if it is not."""
        fd = self._fd
        if fd < 0:
            return False
        try:
            status = os.fstat(fd)
        except OSError:  # somebody closed it
            self._fd = -1
            return False
        ours = (status.st_dev, status.st_ino) == self._identity
        if ours and keep and status.st_nlink > 0:
            return True
        self._fd = -1
        if ours:  # else it was closed, and the number is another file's by now
            os.close(fd)
        return False

    def _write_header(self) -> None:
        import json
        import socket

        self._header = {
            "rank": from_environment("RANK", 0),
            "local_rank": from_environment("LOCAL_RANK", 0),
            "world_size": from_environment("WORLD_SIZE", 1),
            "attempt": from_environment("TORCHELASTIC_RESTART_COUNT", 0),
            "backend": _backend(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time_ns": time.time_ns(),
        }
        line = b"\n" * self._broken_line + json.dumps({"header": self._header}).encode() + b"\n"
        self._broken_line = os.write(self._fd, line) != len(line)

    def close(self) -> None:
        """Notes, by a last header, that this rank's process has come to its end."""
        import json

        # A fork inherits the header; that it ends says nothing about the rank.
        if self._fd < 0 or self._header.get("pid") != os.getpid() or not self._still_open():
            return
        header = {**self._header, "ended_ns": time.time_ns()}
        line = b"\n" * self._broken_line + json.dumps({"header": header}).encode() + b"\n"
        with contextlib.suppress(OSError):
            os.write(self._fd, line)

    def _lose(self, error: OSError) -> None:
        self.dropped += 1
        self._warn(error)

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        reason = error.strerror or str(error)
        tell(
            f"loadwrap: could not write {self.path} ({reason}); the training goes on without "
            "these records: free space on that disk, or choose another folder for the runs."
        )

    def after_fork(self) -> None:
        """Gives a forked child (a DataLoader worker) a descriptor and a lock of its own."""
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._still_open(keep=False)


def from_environment(name: str, default: int) -> int:
    """Returns an integer from the environment, the default if there is none."""
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        return default


def tell(sentence: str) -> None:
    """Says something on stderr."""
    with contextlib.suppress(Exception):  # a closed stderr must not end a training either
        sys.stderr.write(sentence + "\n")


def _ends_in_mid_line(fd: int, size: int) -> bool:
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _backend() -> str | None:
    """Returns the process group's backend, if the rank has one; imports nothing for it."""
    distributed = sys.modules.get("torch.distributed")
    with contextlib.suppress(Exception):
        if distributed is not None and distributed.is_initialized():
            return str(distributed.get_backend())
    return None
