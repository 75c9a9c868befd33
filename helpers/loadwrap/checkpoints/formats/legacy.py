"""The files that torch.save wrote before 1.6: pickles one after another, then raw storages."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, BinaryIO

from .bytesource import Storages, whole_file
from .checkpoint import Checkpoint, Part, find_refusals
from .machine import Cut, Machine, Malformed, TooMuch
from .torn import REMEDY, cut_legacy
from .values import CheckpointError
from .words import percent, size_words

MAGIC = 0x1950A86A20F9469CFC6C
_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def read_legacy(path: Path, file: BinaryIO, size: int) -> Checkpoint | None:
    """Magic number, protocol, system, object and storage keys; None if it is no pickle at all."""
    data = whole_file(file, size)
    ours = bytes(data[0 : len(_START)]) == _START[:size]
    storages = Storages()
    machines: list[Machine] = []
    values: list[Any] = []
    at = 0
    try:
        for _ in range(5):
            machines.append(Machine(data, at, storages))
            values.append(machines[-1].run())
            at = machines[-1].at
            if values[0] != MAGIC:
                _other_pickle(path, values[0], at, size)
                return None
    except TooMuch as error:
        raise CheckpointError(f"{path} is not looked through: {error}.", "too much") from None
    except Cut:
        if ours:
            raise cut_legacy(path, size) from None
        return None
    except Malformed as error:
        if ours:
            raise CheckpointError(f"{path} is damaged: {error}.", "damaged") from None
        return None
    found = Checkpoint(path, "legacy", values[3], size, [path])
    found.refusals = find_refusals(values[3], machines[3].globals)
    found.opcode, found.protocol = machines[3].opcode, machines[3].protocol
    places: dict[str, Part] = {}
    for key in values[4] if isinstance(values[4], list) else []:
        storage = storages.found.get(key) if isinstance(key, str) else None
        if storage is None:
            found.problems.append("its list of storages names one that no tensor uses.")
            break
        places[key] = Part(path, at + 8, storage.nbytes, None, key)
        at += 8 + storage.nbytes
    if at > size:
        raise CheckpointError(
            f"{path} is cut: it has {size_words(size)} of {size_words(at)} "
            f"({percent(size, at)}). {REMEDY}",
            "cut",
        )
    lacking = len(storages.found.keys() - places.keys())
    if lacking and not found.problems:
        found.problems.append(f"{lacking} of its tensors have no bytes in the file.")
    found.locate = places.get
    found.parts = lambda: list(places.values())
    return found


def _other_pickle(path: Path, value: Any, end: int, size: int) -> None:
    """A pickle that torch.save did not write; a chance hit on random bytes is none."""
    if end < size // 2 or end < 4:
        return
    sort = f"it holds a {type(value).__name__}"
    if isinstance(value, dict) and value:
        sort = "it holds a dict of " + ", ".join(repr(key)[:40] for key in list(value)[:4])
    raise CheckpointError(
        f"{path} is a pickle, but not one that torch.save wrote ({sort}): "
        "torch.load does not take it, and pickle.load runs whatever code it names."
    )


def read_tar(path: Path) -> None:
    """The tar that torch.save wrote before 0.1.10; it is named, no more."""
    try:
        with tarfile.open(path, "r:") as archive:
            names = {member.name for member in (archive.next(), archive.next()) if member}
    except (tarfile.TarError, OSError, ValueError):
        return
    if names & {"storages", "tensors", "pickle", "sys_info"}:
        raise CheckpointError(
            f"{path} is a tar that torch.save wrote before 0.1.10 (2017): torch.load with "
            "weights_only=True refuses it; load it once with torch.load(path, "
            "weights_only=False) if you trust where it comes from, and save it again."
        )
