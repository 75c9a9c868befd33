"""Reads the log that a load error is looked for in: a file or stdin, its end if it is long."""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO

from ..formats.values import CheckpointError

MOST = 50 << 20  # bytes; a load error stands near the end of a log


def read_log(path: str, most: int = MOST) -> tuple[str, bool]:
    """The text of a log, and whether its beginning was left out.

    Args:
        path: A file; "-" is stdin.
        most: How many bytes are kept: the last ones.

    Raises:
        CheckpointError: It cannot be read, or is no file: one sentence.
    """
    try:
        if path == "-":
            data, cut = _stream_end(sys.stdin.buffer, most)
        else:
            mode = os.stat(path).st_mode
            # Opening a pipe would wait for a writer that may never come.
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise CheckpointError(
                    f"{path} is no regular file: --error reads a file, or stdin as -.", "missing"
                )
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                cut = size > most
                file.seek(max(0, size - most))
                data = file.read(most)
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path} cannot be read: {why}.", "missing") from None
    if cut:
        data = data.partition(b"\n")[2] or data  # not from the middle of a line
    return data.decode("utf-8", "replace"), cut


def _stream_end(stream: BinaryIO, most: int) -> tuple[bytes, bool]:
    kept = bytearray()
    cut = False
    while piece := stream.read(1 << 20):
        kept += piece
        if len(kept) > most + (8 << 20):  # now and then, as it moves everything
            del kept[:-most]
            cut = True
    cut = cut or len(kept) > most
    return bytes(kept[-most:]), cut
