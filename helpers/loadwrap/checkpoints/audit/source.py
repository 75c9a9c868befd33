"""Which file was read: whether it is whole, the newest, and the same on every rank."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from ..replicas.fingerprint import fingerprint
from .findings import NOT_RECORDED, OK, STALE, WRITERS, Finding, fault
from .pairing import Pairing
from .saved import Saved, manifest_of

_DIGITS = re.compile(r"\d+")
_COUNTING = re.compile(r"(step|iter|it|epoch|ep|ckpt|checkpoint|snapshot|update)[-_=.]?$", re.I)


def check_file(saved: Saved, pairing: Pairing | None, keep: Callable[[str], bool]) -> Finding:
    """Checks one rank's file against its manifest and its neighbours."""
    path = saved.path
    if path is None:
        return Finding(NOT_RECORDED, "a dict was given: no file to look at")
    manifest = saved.manifest
    size = saved.size
    if manifest:
        whole = manifest.get("size")
        if whole is not None and whole != size:
            return fault(STALE, f"{path.name} has {size} bytes, its manifest says {whole}")
        if manifest.get("complete") is False:
            return fault(STALE, f"{path.name}: its manifest does not say that it is complete")
    steps = {
        "the file": saved.tree.get("step"),
        "its manifest": manifest.get("step"),
        "its record": saved.record.get("step"),
    }
    told = {whose: step for whose, step in steps.items() if isinstance(step, int)}
    if len(set(told.values())) > 1:
        spelled = ", ".join(f"{whose} is of step {step}" for whose, step in told.items())
        return fault(WRITERS, f"{path.name} was written by several: {spelled}")
    damaged = _damaged(saved, pairing, keep)
    if damaged:
        return fault(
            STALE,
            f"{path.name}: {damaged} is not what was recorded: damaged on the disk, or saved from "
            "tensors in which training went on",
        )
    newer = _newer(path, saved.step, saved.epoch)
    if newer:
        return fault(STALE, f"{path.name} is not the newest: {newer} (a sort by name or time?)")
    words = path.name + (f", step {saved.step}" if saved.step is not None else "")
    if not manifest:
        return Finding(NOT_RECORDED, f"{words}, which has no manifest")
    return Finding(OK, f"{words}, as its manifest says")


def _damaged(saved: Saved, pairing: Pairing | None, keep: Callable[[str], bool]) -> str:
    """Names a weight whose bits are not those of the record."""
    if pairing is None:
        return ""
    for name, entry in (saved.record.get("tensors") or {}).items():
        tensor = pairing.saved.get(name)
        if not isinstance(tensor, Tensor) or not keep(name) or not isinstance(entry, dict):
            continue
        told = entry.get("fingerprint")
        same_kind = entry.get("dtype") == str(tensor.dtype).removeprefix("torch.")
        if told is not None and same_kind and fingerprint(tensor) != told:
            return name
    return ""


def _newer(path: Path, step: int | None, epoch: int | None) -> str:
    """Names a later checkpoint of the same run beside this one.

    Without manifests the number in the name decides, if it counts steps or epochs: `resnet50.pt`
    is not later than `resnet18.pt`.
    """
    head, number, tail = _split(path)
    if number is None:
        return ""
    own = manifest_of(path)
    by_name = number in (step, epoch) or _COUNTING.search(head) is not None
    name, best = "", -1
    for other in path.parent.iterdir():
        its_head, its_number, its_tail = _split(other)
        if (its_head, its_tail) != (head, tail) or its_number in (None, number):
            continue
        manifest = manifest_of(other)
        if manifest:
            told = manifest.get("step")
            try:
                whole = manifest.get("complete") and manifest.get("size") == other.stat().st_size
            except FileNotFoundError:  # its writer keeps only the newest
                continue
            if not whole or not isinstance(told, int) or step is None or told <= step:
                continue  # torn or older: this one is the right choice
        elif own or not by_name or its_number < number:
            continue
        later = manifest.get("step", its_number)
        if later > best:
            name, best = other.name, later
    return f"{name} beside it is later" if name else ""


def _split(path: Path) -> tuple[str, int | None, str]:
    """Returns a name around its last number."""
    found = list(_DIGITS.finditer(path.name.removesuffix(path.suffix)))
    if not found:
        return path.name, None, ""
    last = found[-1]
    return path.name[: last.start()], int(last[0]), path.name[last.end() :]


def identity(saved: Saved) -> tuple[str, int, int | None] | None:
    """Returns what must be equal on all ranks: the file's name, its size, its step."""
    if saved.path is None:
        return None
    return saved.path.name, saved.size, saved.step
