"""Opens whatever a path names, as the checkpoint that it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from .checkpoint import Checkpoint
from .folders import read_folder
from .identify import what_is_it
from .legacy import read_legacy, read_tar
from .manifest import compare_with_manifest
from .safetensors import looks_like, read_safetensors
from .torn import REMEDY
from .values import CheckpointError
from .zippt import read_zip

HEAD = 1 << 16


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Reads the headers of a checkpoint; executes nothing of it and reads no tensor.

    Args:
        path: A file (.pt, .pth, .bin, .ckpt, .safetensors, whatever its name) or a folder.

    Raises:
        CheckpointError: It is missing, empty, cut, damaged, or no checkpoint: one sentence.

    Example:
        >>> from loadwrap.checkpoints.formats import open_checkpoint
        >>> open_checkpoint("/dev/null")
        Traceback (most recent call last):
        ...
        loadwrap.checkpoints.formats.values.CheckpointError: /dev/null is no file or folder.
    """
    place = Path(path)
    try:
        mode = place.stat().st_mode
        if stat.S_ISDIR(mode):
            return read_folder(place, open_checkpoint)
        if not stat.S_ISREG(mode):
            raise CheckpointError(f"{place} is no file or folder.")
        return _read_file(place)
    except CheckpointError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"There is no file or folder {place}.", "missing") from None
    except OSError as error:
        raise CheckpointError(
            f"{place} cannot be read: {error.strerror or error}.", "missing"
        ) from None
    except ValueError as error:  # a path with a null byte
        raise CheckpointError(f"{str(place)!r} is no path: {error}.", "missing") from None
    except (MemoryError, RecursionError):
        raise CheckpointError(
            f"{place} is too large or too deep to look through.", "too much"
        ) from None


def _read_file(path: Path) -> Checkpoint:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD)
        if size == 0:
            raise CheckpointError(
                f"{path} is empty (0 bytes): the write never began, or the disk was full. {REMEDY}",
                "empty",
            )
        note = compare_with_manifest(path, size)
        found = _read_known(path, file, size, head)
        zeros = found is None and not any(head) and _zeros(file, size)
    if found is None:
        raise CheckpointError(f"{path} is no checkpoint: it is {what_is_it(head, zeros)}.")
    found.notes += [note] if note else []
    return found


def _read_known(path: Path, file: BinaryIO, size: int, head: bytes) -> Checkpoint | None:
    """The checkpoint in a file of a known format, or None."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return read_zip(path, file, size)
    if head[257:262] == b"ustar":
        read_tar(path)
    if looks_like(head, size):
        return read_safetensors(path, file, size)
    if head[:1] in _PICKLE_STARTS:
        found = read_legacy(path, file, size)
        if found is not None:
            return found
    if len(head) < 4 and b"PK\x03\x04".startswith(head):
        raise CheckpointError(f"{path} is cut: only {size} bytes of it are there.", "cut")
    return None


# What a pickle can begin with: a protocol, or in protocol 0 and 1 a mark, a container, a number.
_PICKLE_STARTS = (b"\x80", b"(", b"]", b"}", b"c", b"I", b"L", b"F", b"K", b"J", b"M", b"G")


def _zeros(file: BinaryIO, size: int) -> bool:
    """Whether samples all over the file are zero too (its start is)."""
    for turn in range(64):
        file.seek(size * turn // 64)
        if any(file.read(4096)):
            return False
    return True
