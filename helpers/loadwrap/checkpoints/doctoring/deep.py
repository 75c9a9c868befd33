"""Reads every byte of a checkpoint and names what is damaged."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from typing import TextIO

from ..formats.checkpoint import Checkpoint, Part
from ..formats.manifest import checksum
from ..formats.values import TensorInfo, spell, steps, walk
from ..formats.words import size_words, some

CHUNK = 4 << 20
PAGE = 512  # bytes of zeros in a row, within a record that has others, that are worth a word


@dataclass
class Damage:
    """One record whose bytes are not those that were written."""

    record: str
    words: str


@dataclass
class Examined:
    """What a reading of every byte found.

    Attributes:
        nbytes: Bytes read.
        checked: Bytes among them that a checksum covers.
        damages: Damaged records.
        suspects: Records without a checksum in which a long run of zeros stands out.
    """

    nbytes: int = 0
    checked: int = 0
    damages: list[Damage] | None = None
    suspects: list[Damage] | None = None


class Progress:
    """A line on stderr for anything that takes longer than a second."""

    def __init__(self, whole: int, file: TextIO | None = None) -> None:
        """Takes the number of bytes there are to read."""
        self.whole = whole
        self.out = file or sys.stderr
        self.started = self.shown = time.monotonic()
        self.any = False

    def __call__(self, done: int) -> None:
        """Shows how far it is, twice a second in a terminal and every ten seconds in a log."""
        now = time.monotonic()
        tty = self.out.isatty()
        if now - self.started < 1 or now - self.shown < (0.5 if tty else 10):
            return
        self.shown, self.any = now, True
        line = f"{size_words(done)} of {size_words(self.whole)} read"
        print(f"\r{line}" if tty else line, end="" if tty else "\n", file=self.out, flush=True)

    def finish(self) -> None:
        """Clears the line in a terminal."""
        if self.any and self.out.isatty():
            print("\r" + " " * 60 + "\r", end="", file=self.out, flush=True)


def examine(checkpoint: Checkpoint, progress: Callable[[int], None] | None = None) -> Examined:
    """Reads every record, compares its CRC-32, and looks for zeroed stretches."""
    parts = checkpoint.parts()
    owners = _owners(checkpoint)
    examined = Examined(damages=[], suspects=[])
    assert examined.damages is not None and examined.suspects is not None
    for part in parts:
        if part.at < 0:
            examined.damages.append(Damage(part.name, "has a damaged header"))
            continue
        try:
            with part.file.open("rb") as file:
                crc, longest, zeros, read = _read(file, part, examined.nbytes, progress)
        except (OSError, zlib.error, EOFError) as error:
            examined.damages.append(Damage(part.name, f"cannot be read ({error})"))
            continue
        examined.nbytes += read
        told = _of(part, owners)
        run = f"; {size_words(longest)} of it are zeros in a row" if longest >= PAGE else ""
        if read < part.nbytes:
            examined.damages.append(Damage(part.name, f"{told}ends early"))
        elif part.crc is not None:
            examined.checked += read
            if crc != part.crc:
                what = "is all zeros" if zeros else "is damaged"
                words = (
                    f"{told}{what}: its CRC is not the one that was written{'' if zeros else run}"
                )
                examined.damages.append(Damage(part.name, words))
        elif longest >= 4096 and not zeros:
            examined.suspects.append(Damage(part.name, f"{told}has {size_words(longest)} of zeros"))
    path = checkpoint.path
    whole = checksum(path, checkpoint.nbytes) if path.is_file() else None
    if whole is not None and not examined.damages and _whole_crc(checkpoint) != whole:
        words = "is not, byte for byte, the one that its manifest describes"
        examined.damages.append(Damage("the file", words))
    return examined


def _whole_crc(checkpoint: Checkpoint) -> int:
    crc = 0
    with checkpoint.path.open("rb") as file:
        while piece := file.read(CHUNK):
            crc = zlib.crc32(piece, crc)
    return crc


def _read(
    file: BufferedReader, part: Part, before: int, progress: Callable[[int], None] | None
) -> tuple[int, int, bool, int]:
    """CRC-32, longest run of zero blocks, whether all is zero, and bytes read."""
    file.seek(part.at)
    unpack = zlib.decompressobj(-15) if part.packed else None
    crc, read, longest, run, zeros = 0, 0, 0, 0, True
    buffer = bytearray(CHUNK)
    while read < part.nbytes:
        if unpack is None:
            length = file.readinto(memoryview(buffer)[: min(CHUNK, part.nbytes - read)])
            piece = memoryview(buffer)[:length]
        else:
            piece = memoryview(unpack.decompress(unpack.unconsumed_tail or file.read(CHUNK), CHUNK))
        if not len(piece):
            break
        crc = zlib.crc32(piece, crc)
        read += len(piece)
        run, peak, any_ = _zero_run(bytes(piece), run)
        longest, zeros = max(longest, peak), zeros and not any_
        if progress is not None:
            progress(before + read)
    return crc, max(longest, run), zeros, read


_ZEROS = bytes(PAGE)


def _zero_run(piece: bytes, run: int) -> tuple[int, int, bool]:
    """Length of the run of zeros at the end, the longest one, and whether any byte is set.

    Runs shorter than a block are seen at the ends of a piece alone: that is where they may go on.
    """
    stripped = piece.lstrip(b"\0")
    peak = run + len(piece) - len(stripped)
    if not stripped:
        return peak, peak, False
    at = len(piece) - len(stripped)
    tail = len(piece) - len(piece.rstrip(b"\0"))
    while (at := piece.find(_ZEROS, at)) >= 0:
        end = len(piece) - len(piece[at:].lstrip(b"\0"))
        peak = max(peak, end - at)
        at = end
    return tail, max(peak, tail), True


def _owners(checkpoint: Checkpoint) -> dict[str, list[str]]:
    """The tensors that lie in each storage, as Python finds them."""
    owners: dict[str, list[str]] = {}
    for trail, value in walk(checkpoint.tree):
        if isinstance(value, TensorInfo) and value.storage:
            owners.setdefault(value.storage, []).append(spell(steps(trail)))
    return owners


def _of(part: Part, owners: dict[str, list[str]]) -> str:
    names = owners.get(part.name) or owners.get(part.name.rpartition("/data/")[2]) or []
    return f"({some(names, 2)}) " if names else ""
