"""Folders: which framework wrote them, and what that means for loading them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .checkpoint import Checkpoint
from .dcp import read_dcp
from .frameworks import read_deepspeed, read_megatron
from .huggingface import read_shards, read_trainer
from .values import CheckpointError
from .words import some

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".tar")
MOST = 20_000  # names of a folder that are looked at

Open = Callable[[Path], Checkpoint]


def read_folder(path: Path, opened: Open) -> Checkpoint:
    """The checkpoint that a folder is. Raises CheckpointError if it is none, or several."""
    names = []
    for child in path.iterdir():
        names.append(child.name)
        if len(names) > MOST:
            break
    names.sort()
    if not names:
        raise CheckpointError(f"{path} is an empty folder.", "empty")
    if ".metadata" in names:
        return read_dcp(path, names)
    if any(name.endswith(".distcp") for name in names):
        raise CheckpointError(
            f"{path} is a torch.distributed.checkpoint folder without its .metadata, which is "
            "written last: the save did not finish. Load the one before it.",
            "unfinished",
        )
    indexes = [name for name in names if name.endswith(".index.json")]
    if indexes:
        return read_shards(path, indexes, names, opened)
    for reader in (read_deepspeed, read_megatron):
        found = reader(path, names, opened)
        if found is not None:
            return found
    found = read_trainer(path, names, opened)
    if found is not None:
        return found
    return _loose_files(path, names, opened)


def _loose_files(path: Path, names: list[str], opened: Open) -> Checkpoint:
    """A folder that holds checkpoints without being one."""
    files = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    files = [name for name in files if (path / name).is_file()]
    if len(files) == 1:
        return opened(path / files[0])
    if files:
        files.sort(key=_number, reverse=True)
        raise CheckpointError(
            f"{path} is a folder with {len(files)} checkpoints ({some(files)}): name one of them.",
            "several",
        )
    folders = [name for name in names if (path / name).is_dir()]
    kinds = [name for name in folders if _is_checkpoint(path / name)]
    if kinds:
        kinds.sort(key=_number, reverse=True)
        raise CheckpointError(
            f"{path} is a folder with {len(kinds)} checkpoint folders ({some(kinds)}): name one "
            "of them.",
            "several",
        )
    raise CheckpointError(f"{path} is a folder with no checkpoint in it (it holds {some(names)}).")


def _number(name: str) -> tuple[int, str]:
    """Sorts by the last number in a name, as steps are meant: 1080000 after 960000."""
    digits = re.findall(r"\d{1,18}", name)
    return (int(digits[-1]) if digits else -1, name)


def _is_checkpoint(path: Path) -> bool:
    marks = (".metadata", "latest", "latest_checkpointed_iteration.txt")
    if any((path / mark).exists() for mark in marks):
        return True
    try:
        return any(
            child.name.endswith((*SUFFIXES, ".index.json", ".distcp"))
            for child, _ in zip(path.iterdir(), range(200), strict=False)
        )
    except OSError:
        return False
