"""The manifest that save_checkpoint leaves beside a file: what the file should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .torn import REMEDY
from .values import CheckpointError
from .words import percent, size_words

MAX_MANIFEST = 64 << 20
# A killed writer leaves the following manifest beside the old one; either may fit.
SUFFIXES = (".manifest.json", ".manifest.json.next")


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The manifests of a checkpoint file that can be read and tell a size."""
    found = []
    for suffix in SUFFIXES:
        beside = path.with_name(path.name + suffix)
        try:
            if beside.stat().st_size > MAX_MANIFEST:
                continue
            manifest = json.loads(beside.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(manifest, dict) and isinstance(manifest.get("size"), int):
            found.append(manifest)
    return found


def compare_with_manifest(path: Path, size: int) -> str:
    """A note if the file is longer than its manifest says, "" if it is as long or has none.

    Raises:
        CheckpointError: It is shorter.
    """
    sizes = [manifest["size"] for manifest in read_manifests(path)]
    if not sizes or size in sizes:
        return ""
    whole = min(sizes)
    if 0 < size < whole:
        raise CheckpointError(
            f"{path} is cut: it has {size_words(size)} of the {size_words(whole)} in its manifest "
            f"({percent(size, whole)}). {REMEDY}",
            "cut",
        )
    return "Its manifest describes another file: something else has written this one since."


def checksum(path: Path, size: int) -> int | None:
    """The CRC-32 of the whole file as a manifest of that size tells it, or None."""
    for manifest in read_manifests(path):
        told = manifest.get("checksums")
        crc = told.get("crc32") if isinstance(told, dict) else None
        if manifest["size"] == size and isinstance(crc, str):
            try:
                return int(crc, 16)
            except ValueError:
                continue
    return None
