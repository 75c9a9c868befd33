"""The manifest beside a checkpoint: what the file should be, so that a torn one is known.

File and manifest are two names, and a writer can be killed between two renames. So a new
manifest first lies beside the old one (``.next``), then the file is renamed, then the manifest.
Whatever the moment, one of the two manifests fits the file that is there.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from os import replace as rename
from pathlib import Path
from typing import Any

from .atomic import Stamp, only_writer, stamp_of, sync_folder, write_beside

SUFFIX = ".manifest.json"
NEXT = ".manifest.json.next"
VERSION = 1

_DIGITS = re.compile(r"\d+")


def commit(partial: Path, path: Path, manifest: dict[str, Any]) -> None:
    """Puts a written file and its manifest in place; the old ones are whole until then."""
    text = json.dumps(manifest, indent=1).encode()
    with only_writer(path.parent):
        following = beside(path, NEXT)
        written, _ = write_beside(following, lambda file: file.write(text))
        rename(written, following)
        rename(partial, path)
        rename(following, beside(path, SUFFIX))
        sync_folder(path.parent)  # a file system keeps the order of renames in one folder


def beside(path: Path, suffix: str) -> Path:
    """Returns the name of a file's manifest."""
    return path.with_name(path.name + suffix)


def read(path: Path) -> dict[str, Any] | None:
    """Returns one manifest, or None if there is none that can be read."""
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(manifest, dict) and isinstance(manifest.get("size"), int)
    return manifest if whole and manifest.get("complete") else None


def manifests(path: Path) -> list[dict[str, Any]]:
    """Returns the manifests that may belong to a checkpoint, the likely one first."""
    found = (read(beside(path, suffix)) for suffix in (SUFFIX, NEXT))
    return [manifest for manifest in found if manifest is not None]


def fits(manifest: dict[str, Any], stamp: Stamp) -> bool:
    """Whether a file is the one that a manifest describes."""
    told = manifest.get("checksums", {}).get("crc32")
    return manifest["size"] == stamp.size and told == f"{stamp.crc32:08x}"


def settle(path: Path) -> None:
    """Ends the renaming that a killed writer began: the file fits the following manifest."""
    with suppress(OSError), only_writer(path.parent):
        manifest = read(beside(path, NEXT))
        if manifest is not None and fits(manifest, stamp_of(path)):
            rename(beside(path, NEXT), beside(path, SUFFIX))
            sync_folder(path.parent)


def series(name: str) -> str:
    """Returns what the names of one run's checkpoints have in common: all but their numbers."""
    return _DIGITS.sub("#", name)


def keep_newest(path: Path, step: int, keep: int) -> list[Path]:
    """Removes older checkpoints of the same run: complete ones, and of lower steps.

    Of the same run is what has the same name but for its numbers, in the same folder, and a
    manifest of ours. Nothing else is ever removed.

    Args:
        path: The checkpoint that was just saved.
        step: Its step.
        keep: How many to keep, this one among them.

    Returns:
        What was removed.
    """
    older: list[tuple[int, Path]] = []
    for place in path.parent.iterdir():
        name = place.name.removesuffix(SUFFIX)
        if name == place.name or name == path.name or series(name) != series(path.name):
            continue
        manifest, file = read(place), place.with_name(name)
        if manifest is not None and file.is_file() and isinstance(manifest.get("step"), int):
            if manifest["step"] < step:
                older.append((manifest["step"], file))
    removed = [file for _, file in sorted(older, reverse=True)[keep - 1 :]]
    for file in removed:
        # The manifest goes last: without it the file would pass for one that never had any.
        for one in (file, beside(file, NEXT), beside(file, SUFFIX)):
            with suppress(FileNotFoundError):
                one.unlink()
    if removed:
        sync_folder(path.parent)
    return removed
