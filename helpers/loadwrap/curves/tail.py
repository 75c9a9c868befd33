"""Reads what was appended to a file since the last look, whole lines only."""

from __future__ import annotations

import os

_HEAD = 256
_LONGEST_LINE = 1 << 20


class Tail:
    r"""Follows one growing file, which may not exist yet, shrink, or be replaced.

    The file is opened anew for each look: a shared disk (NFS) then shows what other machines
    have appended, and no descriptor is held.

    Args:
        path: The file.
        ends: The bytes that end a line, as a translation for ``bytes.translate`` sees them:
            ``b"\n"``, or ``b"\n\r"`` for the output of progress bars.
    """

    def __init__(self, path: str | os.PathLike[str], ends: bytes = b"\n") -> None:
        self.path: str = os.fspath(path)
        self.too_long = 0
        self._ends = ends
        self._at = 0
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._rest = b""
        self._discarding = False

    def read(self, max_bytes: int) -> tuple[bytes, bool, bool]:
        """Reads on.

        Args:
            max_bytes: The most bytes to read.

        Returns:
            The bytes up to and including the last end of a line (or nothing); whether the file
            was replaced, so that all that came before is void; and whether anything was read.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b"", False, False
        try:
            restarted = self._restarted(fd)
            data = os.pread(fd, max_bytes, self._at)
        except OSError:
            return b"", False, False
        finally:
            os.close(fd)
        if len(self._head) < _HEAD and len(self._head) == self._at:
            self._head += data[: _HEAD - len(self._head)]
        self._at += len(data)
        return self._whole_lines(data), restarted, bool(data)

    def rest(self) -> bytes:
        """Returns the unfinished last line without forgetting it."""
        return b"" if self._discarding else self._rest

    def take_rest(self) -> bytes:
        """Returns the unfinished last line, which then counts as read."""
        rest, self._rest = self.rest(), b""
        return rest

    def _restarted(self, fd: int) -> bool:
        status = os.fstat(fd)
        identity = status.st_dev, status.st_ino
        if self._identity is None:
            self._identity = identity
            return False
        same = identity == self._identity and status.st_size >= self._at
        # A file deleted and made again often gets the number of the old one: look inside.
        if same and status.st_size > self._at:
            same = os.pread(fd, len(self._head), 0) == self._head
        if not same:
            self._identity, self._at, self._head, self._rest = identity, 0, b"", b""
            self._discarding = False
        return not same

    def _whole_lines(self, data: bytes) -> bytes:
        end = max(data.rfind(byte) for byte in self._ends)
        if end < 0:
            self._rest += data
            if len(self._rest) > _LONGEST_LINE:
                self._rest, self._discarding = b"", True
                self.too_long += 1
            return b""
        lines, rest = data[: end + 1], data[end + 1 :]
        if self._discarding:
            # The rest of a line that was too long to be one.
            first = min(at for byte in self._ends if (at := lines.find(byte)) >= 0)
            lines = lines[first + 1 :]
            self._discarding = False
        else:
            lines = self._rest + lines
        self._rest = rest
        return lines
