"""The table of contents of a zip file, read without trusting any number in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

MAX_TABLE = 256 << 20
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")


class NoTable(ValueError):
    """The file has no table of contents at its end: it was cut, or is no zip."""


@dataclass(slots=True)
class Entry:
    """One record of the archive.

    Attributes:
        name: Its full name, such as "archive/data/0".
        crc: CRC-32 of its bytes.
        packed: Bytes it takes in the file.
        size: Bytes once unpacked.
        at: Where its local header starts.
        method: 0 stored, 8 deflated.
    """

    name: str
    crc: int
    packed: int
    size: int
    at: int
    method: int


def read_table(file: BinaryIO, size: int) -> list[Entry]:
    """Every entry of the table. Raises NoTable."""
    tail_at = max(0, size - (1 << 16) - _END.size)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    end_at = tail.rfind(b"PK\x05\x06")
    if end_at < 0 or len(tail) - end_at < _END.size:
        raise NoTable("its table of contents, which a zip has at its end, is missing")
    _, _, _, _, number, length, start, _ = _END.unpack_from(tail, end_at)
    table_end = tail_at + end_at
    if 0xFFFFFFFF in (length, start) or number == 0xFFFF:
        locator_at = end_at - 20
        if locator_at >= 0 and tail[locator_at : locator_at + 4] == b"PK\x06\x07":
            end64_at = struct.unpack_from("<Q", tail, locator_at + 8)[0]
            if end64_at + _END64.size > size:
                raise NoTable("its table of contents points outside the file")
            file.seek(end64_at)
            *_, number, length, start = _END64.unpack(file.read(_END64.size))
            table_end = end64_at
    if length > MAX_TABLE or start + length > table_end:
        raise NoTable("its table of contents points outside the file")
    file.seek(start)
    return _entries(file.read(length), number, start)


def _entries(table: bytes, number: int, start: int) -> list[Entry]:
    entries: list[Entry] = []
    at = 0
    while len(entries) < number and at + _ENTRY.size <= len(table):
        fields = _ENTRY.unpack_from(table, at)
        if fields[0] != b"PK\x01\x02":
            break
        method, crc, packed, size = fields[4], fields[7], fields[8], fields[9]
        name_length, extra_length, comment_length, header_at = (*fields[10:13], fields[16])
        name_at = at + _ENTRY.size
        name = table[name_at : name_at + name_length].decode("utf-8", "replace")
        if 0xFFFFFFFF in (packed, size, header_at):
            extra = table[name_at + name_length : name_at + name_length + extra_length]
            packed, size, header_at = _wide(extra, packed, size, header_at)
        if header_at + packed > start:
            raise NoTable("its table of contents points outside the file")
        entries.append(Entry(name, crc, packed, size, header_at, method))
        at = name_at + name_length + extra_length + comment_length
    if len(entries) != number:
        raise NoTable("its table of contents is damaged")
    return entries


def _wide(extra: bytes, packed: int, size: int, header_at: int) -> tuple[int, int, int]:
    """The 64-bit numbers of an entry that needs them."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = [
                struct.unpack_from("<Q", extra, place)[0]
                for place in range(at + 4, min(at + 4 + length, len(extra)) - 7, 8)
            ]
            if size == 0xFFFFFFFF and wide:
                size = wide.pop(0)
            if packed == 0xFFFFFFFF and wide:
                packed = wide.pop(0)
            if header_at == 0xFFFFFFFF and wide:
                header_at = wide.pop(0)
            break
        at += 4 + length
    return packed, size, header_at


def data_at(file: BinaryIO, entry: Entry) -> int:
    """Where the bytes of an entry start. Raises NoTable if its own header is damaged."""
    file.seek(entry.at)
    header = file.read(LOCAL.size)
    if len(header) < LOCAL.size or header[:4] != b"PK\x03\x04":
        raise NoTable(f"the header of its record {entry.name} is damaged")
    fields = LOCAL.unpack(header)
    return entry.at + LOCAL.size + fields[9] + fields[10]
