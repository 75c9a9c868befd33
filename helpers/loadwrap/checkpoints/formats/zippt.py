"""The zip that torch.save has written since 1.6, and TorchScript archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from .bytesource import Storages, content
from .checkpoint import Checkpoint, Part, find_refusals
from .identify import what_zip
from .machine import Machine, Malformed, TooMuch
from .torn import torn_zip
from .values import CheckpointError, Refused, StateDict, TensorInfo
from .ziptable import Entry, NoTable, data_at, read_table


def read_zip(path: Path, file: BinaryIO, size: int) -> Checkpoint:
    """The zip that torch.save writes, or a TorchScript archive."""
    try:
        entries = read_table(file, size)
    except NoTable as error:
        raise torn_zip(path, file, size, str(error)) from None
    by_name: dict[str, Entry] = {}
    for entry in entries:
        by_name[entry.name] = entry
    pickles = [n for n in by_name if n.endswith("/data.pkl") and n.count("/") == 1]
    if not pickles:
        raise CheckpointError(f"{path} is {what_zip(list(by_name))}.")
    root = pickles[0][: -len("data.pkl")]
    storages = Storages()
    try:
        data = content(file, by_name[pickles[0]])
        machine = Machine(data, 0, storages)
        tree = machine.run()
    except NoTable as error:
        raise CheckpointError(f"{path} is damaged: {error}.", "damaged") from None
    except TooMuch as error:
        raise CheckpointError(f"{path} is not looked through: {error}.", "too much") from None
    except Malformed as error:
        raise CheckpointError(f"{path} is damaged: in its data.pkl {error}.", "damaged") from None
    script = f"{root}constants.pkl" in by_name
    if script:
        tree = script_tensors(tree)
    found = Checkpoint(path, "torchscript" if script else "zip", tree, size, [path])
    found.refusals = find_refusals(tree, machine.globals)
    found.opcode, found.protocol = machine.opcode, machine.protocol
    if len(by_name) != len(entries):
        found.problems.append(
            f"{len(entries) - len(by_name)} of its records have a name that another record has "
            "too: it was written by two writers, or tampered with."
        )
    missing, wrong = [], []
    for key, storage in storages.found.items():
        record = by_name.get(f"{root}data/{key}")
        if record is None:
            missing.append(key)
        elif record.size != storage.nbytes and storage.device != "meta":
            wrong.append((key, record.size, storage.nbytes))
    if missing:
        found.problems.append(
            f"{len(missing)} of {len(storages.found)} tensor records are missing from it, "
            f"data/{missing[0]} first: it is not whole."
        )
    if wrong:
        key, is_, should = wrong[0]
        found.problems.append(
            f"{len(wrong)} of {len(storages.found)} tensor records have the wrong size "
            f"(data/{key} has {is_} bytes, its tensors need {should}): "
            "two processes wrote this file at the same time, or it was tampered with."
        )

    def part(entry: Entry) -> Part:
        with path.open("rb") as again:
            at = data_at(again, entry)
        return Part(path, at, entry.size, entry.crc, entry.name, entry.method != 0)

    def locate(storage: str) -> Part | None:
        entry = by_name.get(f"{root}data/{storage}")
        return part(entry) if entry is not None else None

    found.locate = locate
    found.parts = lambda: [part(entry) for entry in entries if entry.size]
    return found


def script_tensors(module: Any) -> StateDict:
    """The state dict of a TorchScript module: its tensors by dotted name."""
    flat = StateDict()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", module)]
    while waiting:
        prefix, value = waiting.pop()
        if id(value) in seen or len(prefix) > 2000:
            continue
        seen.add(id(value))
        held = value.attributes if isinstance(value, Refused) else {}
        for name, child in held.items():
            if isinstance(child, TensorInfo):
                flat[f"{prefix}{name}"] = child
        below = [(f"{prefix}{n}.", c) for n, c in held.items() if isinstance(c, Refused)]
        waiting.extend(reversed(below))
    return flat
