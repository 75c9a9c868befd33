"""Says of a file that was cut how much of it is there."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from .bytesource import IN_MEMORY, Storages
from .machine import Cut, Machine, Malformed
from .values import CheckpointError
from .words import percent, size_words
from .ziptable import LOCAL

REMEDY = "The write was interrupted; load the checkpoint before it."


def cut_legacy(path: Path, size: int) -> CheckpointError:
    """A file of the old sort that ends within its pickles."""
    return CheckpointError(
        f"{path} is cut: it ends at {size_words(size)}, before its list of tensors does. {REMEDY}",
        "cut",
    )


def torn_zip(path: Path, file: BinaryIO, size: int, why: str) -> CheckpointError:
    """A zip without its table of contents: the pickle at its start tells how long it should be."""
    file.seek(0)
    head = file.read(IN_MEMORY)
    if len(head) < LOCAL.size:
        return CheckpointError(
            f"{path} is cut: it has only {size} bytes, the start of what torch.save writes. "
            f"{REMEDY}",
            "cut",
        )
    fields = LOCAL.unpack_from(head)
    name = head[LOCAL.size : LOCAL.size + fields[9]].decode("utf-8", "replace")
    if not name.endswith("/data.pkl"):
        return CheckpointError(f"{path} looks like a zip archive that was cut: {why}.", "cut")
    storages = Storages()
    machine = Machine(head, LOCAL.size + fields[9] + fields[10], storages)
    try:
        machine.run()
    except Cut:
        return cut_legacy(path, size)
    except Malformed as error:
        return CheckpointError(f"{path} is damaged: {why}, and in its data.pkl {error}.", "damaged")
    whole = _whole(machine.at, [one.nbytes for one in storages.found.values()], len(name))
    if size >= whole:
        return CheckpointError(f"{path} is cut or damaged near its end: {why}. {REMEDY}", "cut")
    return CheckpointError(
        f"{path} is cut: it has {size_words(size)} of about {size_words(whole)} "
        f"({percent(size, whole)}). {REMEDY}",
        "cut",
    )


def _whole(start: int, records: list[int], name: int) -> int:
    """About how long the file was to be: records start at multiples of 64, headers come on top."""
    local, table = LOCAL.size + name + 24, 46 + name
    held = sum(-(-nbytes // 64) * 64 + -(-local // 64) * 64 for nbytes in records)
    return start + held + (len(records) + 6) * table + 5 * local + 22
