"""The bytes of a pickle, wherever they lie, and the storages that it names."""

from __future__ import annotations

import mmap
import zlib
from typing import Any, BinaryIO

from .machine import TooMuch
from .rebuild import storage_from
from .values import StorageInfo
from .ziptable import Entry, NoTable, data_at

IN_MEMORY = 64 << 20


class Storages:
    """The storages that a pickle names, by key: what each record must hold."""

    def __init__(self) -> None:
        self.found: dict[str, StorageInfo] = {}

    def __call__(self, pid: Any) -> Any:
        """Turns a persistent id into the storage it names."""
        value = storage_from(pid)
        if isinstance(value, StorageInfo):
            known = self.found.setdefault(value.key, value)
            if known.nbytes < value.nbytes:
                self.found[value.key] = value
        return value

    def expected(self) -> int:
        """Bytes of all storages together."""
        return sum(storage.nbytes for storage in self.found.values())


class Window:
    """A mapped file from some byte on."""

    def __init__(self, whole: mmap.mmap, start: int) -> None:
        self.whole, self.start = whole, start

    def __len__(self) -> int:
        return len(self.whole) - self.start

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.whole[self.start + at.start : self.start + at.stop]
        return self.whole[self.start + at]

    def find(self, piece: bytes, start: int, end: int) -> int:
        """Where ``piece`` is, or -1."""
        at = self.whole.find(piece, self.start + start, self.start + end)
        return at - self.start if at >= 0 else -1


def whole_file(file: BinaryIO, size: int) -> Any:
    """The bytes of a file: in memory if they are few, else mapped."""
    file.seek(0)
    if size <= IN_MEMORY:
        return file.read(size)
    return Window(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), 0)


def content(file: BinaryIO, entry: Entry) -> Any:
    """The bytes of a record: in memory if they are few, else mapped."""
    at = data_at(file, entry)
    if entry.method == 0:
        if entry.size <= IN_MEMORY:
            file.seek(at)
            return file.read(entry.size)
        base = at - at % mmap.ALLOCATIONGRANULARITY
        length = at - base + entry.size
        whole = mmap.mmap(file.fileno(), length, offset=base, access=mmap.ACCESS_READ)
        return Window(whole, at - base)
    if entry.method != 8:
        raise NoTable(f"its record {entry.name} is compressed in a way that torch does not read")
    file.seek(at)
    unpack = zlib.decompressobj(-15)
    try:
        data = unpack.decompress(file.read(min(entry.packed, IN_MEMORY)), IN_MEMORY)
    except zlib.error:
        raise NoTable(f"its record {entry.name} cannot be unpacked") from None
    if not unpack.eof:
        raise TooMuch("its pickle is a large compressed one, which torch.save never writes")
    return data
