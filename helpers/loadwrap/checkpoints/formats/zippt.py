"""The zip that torch.save has written since 1.6, and TorchScript archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from .bytesource import Storages, content
from .checkpoint import Checkpoint, Part, find_refusals
from .identify import what_zip
from .machine import Machine, Malformed, TooMuch
from .torn import torn_zip
from .values import CheckpointError, Refusal, Refused, StateDict, TensorInfo
from .words import plural
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
    # As torch has it: the first record says in which folder of the archive everything lies.
    root = entries[0].name.partition("/")[0] + "/" if entries else ""
    pickled = f"{root}data.pkl"
    if pickled not in by_name:
        raise CheckpointError(f"{path} is {what_zip(list(by_name))}.")
    storages = Storages()
    try:
        data = content(file, by_name[pickled])
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
    if script:
        found.refusals = [Refusal("a TorchScript archive", "")]
    else:
        found.refusals = find_refusals(tree, machine.globals)
        found.opcode = machine.opcode
    found.protocol = machine.protocol
    twins = sum(1 for name in by_name if name.lower() == pickled.lower()) - 1
    _check_names(found, len(entries) - len(by_name) + twins)
    _check_records(found, storages, by_name, root)

    def part(entry: Entry) -> Part:
        with path.open("rb") as again:
            try:
                at = data_at(again, entry)
            except NoTable:
                at = -1
        return Part(path, at, entry.size, entry.crc, entry.name, entry.method != 0)

    def locate(storage: str) -> Part | None:
        entry = by_name.get(f"{root}data/{storage}")
        found = part(entry) if entry is not None else None
        return found if found is not None and found.at >= 0 else None

    found.locate = locate
    found.parts = lambda: [part(entry) for entry in entries if entry.size]
    return found


def _check_names(found: Checkpoint, twins: int) -> None:
    if twins:
        found.problems.append(
            f"{plural(twins, 'record')} of it under a name that another record has too: two "
            "processes wrote this file at the same time, or it was tampered with."
        )


def _check_records(
    found: Checkpoint, storages: Storages, by_name: dict[str, Entry], root: str
) -> None:
    """Whether each storage that the pickle names has its record, of the right size."""
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
        key, size, needed = wrong[0]
        found.problems.append(
            f"{len(wrong)} of {len(storages.found)} tensor records have the wrong size "
            f"(data/{key} has {size} bytes, its tensors need {needed}): "
            "two processes wrote this file at the same time, or it was tampered with."
        )


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
