"""What is known of a checkpoint after its headers have been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .values import Blob, Global, Refusal, Refused, TensorInfo, spell, steps, walk

# How each kind is called in a sentence.
KINDS = {
    "zip": "written by torch.save",
    "legacy": "written by torch.save of before 1.6, or with _use_new_zipfile_serialization=False",
    "safetensors": "safetensors",
    "hf-sharded": "a Hugging Face folder of shards",
    "hf-folder": "a Hugging Face folder",
    "dcp": "a torch.distributed.checkpoint folder",
    "deepspeed": "a DeepSpeed folder",
    "megatron": "a Megatron folder",
    "torchscript": "a TorchScript archive",
}


@dataclass
class Part:
    """A range of bytes in a file: where a storage's bytes lie.

    Attributes:
        file: The file.
        at: Its first byte; -1 if its own header is damaged.
        nbytes: How many bytes there are.
        crc: Their CRC-32 as the file records it, or None.
        name: The record's name in the file.
        packed: Whether the bytes are compressed.
    """

    file: Path
    at: int
    nbytes: int
    crc: int | None = None
    name: str = ""
    packed: bool = False


@dataclass
class Checkpoint:
    """A checkpoint described by its headers; no tensor has been read, no pickle executed.

    Attributes:
        path: The file or folder.
        kind: "zip", "legacy", "safetensors", "hf-sharded", "hf-folder", "dcp", "deepspeed",
            "megatron" or "torchscript".
        tree: The nested structure: dicts, lists, plain values, TensorInfo for tensors, and Refused
            for objects that ``weights_only`` refuses.
        nbytes: Size of the file, or of all files of the folder, in bytes.
        files: The files that were looked at.
        problems: What keeps it from loading whole, a sentence each.
        notes: What is worth knowing, a sentence each.
        refusals: What ``torch.load`` refuses by default, by name and place.
        opcode: The first pickle instruction that ``weights_only`` does not know, or "".
        protocol: The pickle protocol; 0 where there is no pickle.
        contents: File names by the part of a resume they hold, for folders.
        beside: What other files of a folder hold, by name: the optimizer's state.

    Example:
        >>> import tempfile, torch
        >>> from loadwrap.checkpoints.formats import open_checkpoint
        >>> path = tempfile.mkdtemp() + "/last.pt"
        >>> torch.save({"model": torch.nn.Linear(3, 2).state_dict(), "epoch": 4}, path)
        >>> found = open_checkpoint(path)
        >>> found.kind, found.tree["epoch"], found.tree["model"]["weight"].shape
        ('zip', 4, (2, 3))
    """

    path: Path
    kind: str
    tree: Any
    nbytes: int = 0
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    opcode: str = ""
    protocol: int = 0
    contents: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    locate: Callable[[str], Part | None] = lambda storage: None
    parts: Callable[[], list[Part]] = list

    @property
    def loadable(self) -> bool:
        """Whether a plain ``torch.load(path)`` takes the file as it is."""
        return not (self.problems or self.refusals or self.opcode) and self.kind in (
            "zip",
            "legacy",
        )


def find_refusals(tree: Any, named: dict[str, Global]) -> list[Refusal]:
    """Where the names stand that ``weights_only`` refuses, the first place of each."""
    refused = {name: Refusal(name, "", 0) for name, known in named.items() if not known.allowed}
    if not refused:
        return []
    for trail, value in walk(tree):
        name = value.name if isinstance(value, (Refused, Global)) else None
        if name in refused:
            entry = refused[name]
            entry.times += 1
            if not entry.where:
                entry.where = spell(steps(trail))
    return list(refused.values())


def total(tree: Any) -> int:
    """Bytes that the storages of all tensors in a tree take, shared ones counted once."""
    sizes: dict[str, int] = {}
    for _, value in walk(tree):
        if isinstance(value, TensorInfo):
            if value.storage:
                known = sizes.get(value.storage, 0)
                sizes[value.storage] = max(known, value.nbytes)
            else:
                sizes[f"#{id(value)}"] = value.nbytes
        elif isinstance(value, Blob):
            sizes[f"#{id(value)}"] = value.length
    return sum(sizes.values())
