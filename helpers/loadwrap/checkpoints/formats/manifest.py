"""The manifest that save_checkpoint leaves beside a file: how long the file should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .torn import REMEDY
from .values import CheckpointError
from .words import percent, size_words

MAX_MANIFEST = 64 << 20


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest of a checkpoint file, or None if it has none that can be read."""
    beside = path.with_name(path.name + ".manifest.json")
    try:
        if beside.stat().st_size > MAX_MANIFEST:
            return None
        manifest = json.loads(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def compare_with_manifest(path: Path, size: int) -> None:
    """Raises CheckpointError if the file is shorter than its manifest says."""
    manifest = read_manifest(path)
    whole = manifest.get("size") if manifest else None
    if isinstance(whole, int) and 0 < size < whole:
        raise CheckpointError(
            f"{path} is cut: it has {size_words(size)} of the {size_words(whole)} in its manifest "
            f"({percent(size, whole)}). {REMEDY}",
            "cut",
        )
