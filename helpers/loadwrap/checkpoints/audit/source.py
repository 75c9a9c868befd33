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


def check_file(saved: Saved, pairing: Pairing | None, keep: Callable[[str], bool]) -> Finding:
    """Checks one rank's file against its manifest and its neighbours."""
    path = saved.path
    if path is None:
        return Finding(NOT_RECORDED, "a dict was given: no file to look at")
    manifest = saved.manifest
    size = path.stat().st_size
    if manifest:
        whole = manifest.get("size")
        if whole is not None and whole != size:
            return fault(STALE, f"{path.name} has {size} bytes, its manifest says {whole}")
        if manifest.get("complete") is False:
            return fault(STALE, f"{path.name}: its manifest does not say that it is complete")
        damaged = _damaged(saved, pairing, keep)
        if damaged:
            return fault(
                STALE, f"{path.name}: {damaged} is not what was saved: the file was damaged"
            )
    inner = saved.tree.get("step")
    if (
        isinstance(inner, int)
        and isinstance(manifest.get("step"), int)
        and inner != manifest["step"]
    ):
        return fault(WRITERS, f"{path.name} is of step {inner}, its manifest of {manifest['step']}")
    newer = _newer(path, saved.step)
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


def _newer(path: Path, step: int | None) -> str:
    """Names a later checkpoint of the same run beside this one."""
    best = _step_of(path, step)
    if best is None:
        return ""
    name, pattern = "", _DIGITS.sub("#", path.name)
    for other in path.parent.iterdir():
        if other == path or _DIGITS.sub("#", other.name) != pattern or not other.is_file():
            continue
        manifest = manifest_of(other)
        told = manifest.get("step") if manifest.get("complete") else None
        if manifest and told is None or manifest and manifest.get("size") != other.stat().st_size:
            continue  # torn: the older one is the right choice
        its = told if isinstance(told, int) else _number(other)
        if its is not None and its > best:
            best, name = its, other.name
    return f"{name} beside it is of step {best}" if name else ""


def _step_of(path: Path, step: int | None) -> int | None:
    return step if step is not None and manifest_of(path) else _number(path)


def _number(path: Path) -> int | None:
    digits = _DIGITS.findall(path.stem)
    return int(digits[-1]) if digits else None


def identity(saved: Saved) -> tuple[str, int, int | None] | None:
    """Returns what must be equal on all ranks: the file's name, its size, its step."""
    if saved.path is None:
        return None
    return saved.path.name, saved.path.stat().st_size, saved.step
