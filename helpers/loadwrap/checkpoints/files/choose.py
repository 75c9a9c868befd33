"""Decides which file to load: of a folder, the complete one of the highest step."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..formats import open_checkpoint
from .atomic import Stamp, stamp_of
from .errors import CheckpointError
from .foreign import step_of
from .manifest import NEXT, SUFFIX, beside, fits, manifests, series, settle
from .places import not_regular

_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar")
_DIGITS = re.compile(r"\d+")
_TRIES = 20  # against a writer that replaces the file again and again
_PAUSE_S = 0.1
_PATIENCE_S = 10.0  # for a network file system to show a file that another node wrote


@dataclass
class Choice:
    """The file to load.

    Attributes:
        path: The file.
        manifest: What is recorded about it; None for a file that is not ours.
        stamp: Size and checksum, as the first rank read them.
        seen: Which file that was, on the first rank.
        passed_over: What was newer and is not complete, in words.
    """

    path: Path
    manifest: dict[str, Any] | None
    stamp: Stamp
    seen: tuple[int, ...] = ()
    passed_over: list[str] = field(default_factory=list)


def choose(place: Path) -> Choice:
    """Returns the file to load. Reads it as a whole, to be sure of it.

    Args:
        place: A file, which is taken or refused; or a folder, of which the newest complete one is
            taken.

    Raises:
        CheckpointError: There is none.
    """
    if place.is_dir():
        return _newest(place)
    if not place.exists():
        if beside(place, NEXT).exists():
            raise CheckpointError(f"{place}: its writer was ended before it was done", "missing")
        raise CheckpointError(f"there is no file or folder {place}", "missing")
    try:
        return _checked(place)
    except FileNotFoundError as error:
        raise CheckpointError(f"{place} was removed while it was read", "several") from error
    except CheckpointError as error:
        raise CheckpointError(f"{place} {error}{_other(place)}", error.reason) from error


def verify(choice: Choice) -> tuple[int, ...]:
    """Checks that this rank sees the file that the first rank chose, and returns its `seen`.

    Raises:
        CheckpointError: It does not, even after a while.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        before, found = seen(choice.path), None
        with suppress(FileNotFoundError):
            found = stamp_of(choice.path)
        if found == choice.stamp:
            return before
        if time.monotonic() > end:
            break
        time.sleep(0.25)
    if found is None:
        raise CheckpointError(f"{choice.path} cannot be seen from this rank", "unseen")
    raise CheckpointError(f"{choice.path} is another file here than on the first rank", "several")


def seen(path: Path) -> tuple[int, ...]:
    """Returns what changes when a file is replaced or written to; empty if there is none."""
    try:
        now = path.stat()
    except OSError:
        return ()
    return now.st_ino, now.st_mtime_ns, now.st_size


def _newest(folder: Path) -> Choice:
    for _ in range(_TRIES):
        if (choice := _newest_of(folder, _files(folder))) is not None:
            return choice
    raise CheckpointError(f"{folder}: its files are removed while they are read", "several")


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file()
        and not path.name.startswith(".")
        and not path.name.endswith((SUFFIX, NEXT))
        and (path.suffix in _SUFFIXES or beside(path, SUFFIX).exists())
    ]


def _newest_of(folder: Path, files: list[Path]) -> Choice | None:
    """Returns the newest complete one; None if there was none because files went away."""
    if not files:
        raise CheckpointError(
            f"{folder} holds no checkpoint: no {', '.join(_SUFFIXES)} file", "missing"
        )
    steps = {path: _step(path) for path in files}
    gone = False
    files.sort(key=lambda path: (steps[path] is not None, steps[path] or 0, bool(manifests(path))))
    passed_over: list[str] = []
    for path in reversed(files):
        try:
            choice = _checked(path)
        except FileNotFoundError:  # a writer keeps only the newest ones
            gone = True
            continue
        except CheckpointError as error:
            step = f" (step {steps[path]})" if steps[path] is not None else ""
            passed_over.append(f"{path.name}{step} {error}")
            continue
        choice.passed_over = passed_over
        return choice
    if gone:
        return None
    raise CheckpointError(f"{folder} holds no complete checkpoint: {'; '.join(passed_over)}", "cut")


def _checked(path: Path) -> Choice:
    """Returns the file as a choice if it is complete.

    Raises:
        CheckpointError: What is wrong with it, to be put after its name.
    """
    if wrong := not_regular(path):
        raise CheckpointError(wrong)
    for _ in range(_TRIES):
        before = seen(path)
        stamp = stamp_of(path)
        told = manifests(path)
        for manifest in told:
            if fits(manifest, stamp):
                settle(path)
                return Choice(path, manifest, stamp, before)
        if told or beside(path, NEXT).exists():
            time.sleep(_PAUSE_S)
        if seen(path) == before and manifests(path) == told:
            break  # nobody is writing: that is how it is
    if told and beside(path, SUFFIX).exists():
        whole = told[0]["size"]
        if stamp.size != whole:
            share = f" ({stamp.size / whole:.0%})" if stamp.size < whole else ""
            words = f"is torn: it has {stamp.size:,} bytes, its manifest says {whole:,}{share}"
            raise CheckpointError(words, "cut")
        raise CheckpointError("is damaged: it has its manifest's size, but other bytes", "damaged")
    if stamp.size == 0:
        raise CheckpointError("is empty", "empty")
    peek(path)
    return Choice(path, None, stamp, before)


def _step(path: Path) -> int | None:
    """Returns the step of a checkpoint, from its manifest, from inside, or from its name."""
    told = manifests(path)
    if len(told) == 2:  # a writer was ended between two renames: which one is it?
        with suppress(FileNotFoundError):
            stamp = stamp_of(path)
            told = [manifest for manifest in told if fits(manifest, stamp)] or told
    if told and isinstance(told[0].get("step"), int):
        return int(told[0]["step"])
    try:
        step = step_of(peek(path))
    except CheckpointError:
        step = None
    digits = _DIGITS.findall(path.stem)
    return step if step is not None else int(digits[-1]) if digits else None


def peek(path: Path) -> Any:
    """Returns what a file holds, its tensors mapped from the disk, on the CPU.

    Raises:
        CheckpointError: It cannot be read, or not without running code.
    """
    try:
        try:
            return torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        except RuntimeError as error:
            if "mmap can only be used" not in str(error):
                raise
            return torch.load(path, map_location="cpu", weights_only=True)  # the old format
    except FileNotFoundError:
        raise
    except Exception as error:  # torn files raise almost anything
        text = str(error)
        refused = re.search(r"(?:GLOBAL|[Uu]nsupported class) (\S+)", text)
        if "eights only load failed" in text and refused:
            raise CheckpointError(
                f"is not safe to read: it holds {refused[1].rstrip('.')}, and reading that would "
                f"run code; `loadwrap doctor {path}` names the safe way",
                "unsafe",
            ) from error
        if sentence := _told_by_headers(path):
            raise CheckpointError(f"cannot be read: {sentence}", "damaged") from error
        first = text.strip().splitlines()[0][:160] if text.strip() else type(error).__name__
        raise CheckpointError(f"cannot be read: {first}", "damaged") from error


def _told_by_headers(path: Path) -> str:
    """Returns what is wrong with a file by its own table of contents, if that tells."""
    try:
        problems = open_checkpoint(path).problems
    except CheckpointError as error:
        problems = [str(error)]
    except Exception:
        return ""
    return problems[0].removeprefix(f"{path} ").removesuffix(".") if problems else ""


def _other(path: Path) -> str:
    """Names the checkpoint of the same run beside a torn one that could be loaded instead."""
    best: tuple[int, str] | None = None
    with suppress(OSError):
        for other in _files(path.parent):
            if other == path or series(other.name) != series(path.name):
                continue
            for manifest in manifests(other):
                step = manifest.get("step")
                if not isinstance(step, int) or (best is not None and step <= best[0]):
                    continue
                if fits(manifest, stamp_of(other)):
                    best = step, other.name
    return f". Complete is {best[1]} (step {best[0]})" if best else ""
