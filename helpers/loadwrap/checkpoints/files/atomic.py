"""Files that are there as a whole, with all their bytes on the disk, or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_BLOCK = 1 << 22
_PARTIAL = re.compile(r"^\..+\.(?P<host>[^.]*)\.(?P<pid>\d+)\.partial$")


@dataclass(frozen=True)
class Stamp:
    """What tells one content of a file from another.

    Attributes:
        size: In bytes.
        crc32: Of all bytes.
    """

    size: int
    crc32: int


class _Counting:
    """A file to write to: it counts, sums up, and keeps the error that torch.save would lose."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0
        self.crc32 = 0
        self.error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        try:
            self.file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.size += len(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        return len(data)

    def flush(self) -> None:
        try:
            self.file.flush()
        except OSError as error:
            self.error = self.error or error
            raise


def write_beside(path: Path, save: Callable[[BinaryIO], object]) -> tuple[Path, Stamp]:
    """Writes a file next to where it belongs, down to the disk; nothing of it is left on an error.

    Args:
        path: Where the file will belong.
        save: Writes to the file that it is given, from beginning to end.

    Returns:
        The file, to be renamed, and what was written.

    Raises:
        OSError: It could not be written, such as a full disk.
    """
    host = socket.gethostname().replace(".", "-")
    partial = path.with_name(f".{path.name}.{host}.{os.getpid()}.partial")
    try:
        with partial.open("wb", buffering=1 << 20) as file:
            counting = _Counting(file)
            try:
                save(counting)  # type: ignore[arg-type]
                counting.flush()
            except Exception as error:
                raise (counting.error or error) from None
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    return partial, Stamp(counting.size, counting.crc32)


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keeps other processes on this machine from renaming in the folder at the same time."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: renames are atomic even so
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def stamp_of(path: Path) -> Stamp:
    """Reads a whole file and returns what it holds, as a stamp."""
    size = crc = 0
    buffer = memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            crc = zlib.crc32(buffer[:count], crc)
            size += count
    return Stamp(size, crc)


def remove_leftovers(folder: Path) -> None:
    """Removes what writers of this machine left behind that were killed in the middle."""
    host = socket.gethostname().replace(".", "-")
    for path in folder.iterdir():
        found = _PARTIAL.match(path.name)
        if found and found["host"] == host and not _alive(int(found["pid"])):
            with suppress(OSError):
                path.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
