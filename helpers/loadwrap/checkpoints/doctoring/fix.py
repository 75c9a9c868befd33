"""Writes the renamed weights to a new file, atomically, without unpickling the old one."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.allowed import ITEMSIZE
from ..formats.checkpoint import Checkpoint
from ..formats.values import CheckpointError, TensorInfo, count

if TYPE_CHECKING:
    import torch


class Bytes:
    """The tensors of a checkpoint, taken from its bytes by shape, stride and dtype alone.

    Files are mapped, so memory is used for what is written, when it is written. Tensors that
    share a storage in the file share one here, so that ties are written once again.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Maps nothing yet."""
        self.checkpoint = checkpoint
        self.maps: dict[Path, mmap.mmap] = {}
        self.storages: dict[str, torch.Tensor] = {}

    def tensor(self, info: TensorInfo) -> torch.Tensor:
        """The tensor that ``info`` describes. Raises CheckpointError."""
        import torch

        dtype = getattr(torch, info.dtype, None)
        plain = info.kind in ("tensor", "parameter")
        if not plain or info.dtype not in ITEMSIZE or not isinstance(dtype, torch.dtype):
            raise CheckpointError(
                f"A {info.kind} of {info.dtype} cannot be taken out of the file by --fix."
            )
        if 0 in info.shape:
            return torch.empty(info.shape, dtype=dtype)
        raw = self._storage(info.storage)
        width = ITEMSIZE[info.dtype]
        last = info.offset + sum(
            (size - 1) * step for size, step in zip(info.shape, info.stride, strict=True)
        )
        if len(info.stride) != len(info.shape) or info.offset < 0 or (last + 1) * width > len(raw):
            raise CheckpointError("A tensor of the file reaches beyond its own record.")
        typed = raw[: len(raw) // width * width].view(dtype)
        try:
            return typed.as_strided(info.shape, info.stride, info.offset)
        except (RuntimeError, OverflowError):
            raise CheckpointError(f"A tensor of shape {info.shape} cannot be made.") from None

    def _storage(self, name: str) -> torch.Tensor:
        import torch

        if name not in self.storages:
            part = self.checkpoint.locate(name)
            if part is None or part.packed:
                raise CheckpointError(f"The bytes of record {name} cannot be taken from the file.")
            if part.file not in self.maps:
                with part.file.open("rb") as file:
                    self.maps[part.file] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            whole = self.maps[part.file]
            if part.at + part.nbytes > len(whole):
                raise CheckpointError(f"The bytes of record {name} are not all in the file.")
            if not part.nbytes:
                return torch.empty(0, dtype=torch.uint8)
            raw = torch.frombuffer(whole, dtype=torch.uint8, count=part.nbytes, offset=part.at)
            if part.at % 16:
                raw = raw.clone()  # a view as a wider type needs an aligned start
            self.storages[name] = raw
        return self.storages[name]


def read_weights(
    checkpoint: Checkpoint, tensors: Mapping[str, TensorInfo], metadata: Any
) -> dict[str, Any]:
    """A state dict with its ``_metadata``, in the file's order."""
    from collections import OrderedDict

    source = Bytes(checkpoint)
    weights: Any = OrderedDict((name, source.tensor(info)) for name, info in tensors.items())
    if isinstance(metadata, dict) and all(isinstance(key, str) for key in metadata):
        kept = {}
        for key, entry in metadata.items():
            if isinstance(entry, dict):
                kept[key] = {k: v for k, v in entry.items() if isinstance(v, (int, str, bool))}
        weights._metadata = OrderedDict(kept)
    return weights


def keep_sources(out: str, sources: Iterable[str | Path]) -> None:
    """Raises CheckpointError if ``out`` is one of the files that are read, under any name.

    What is written holds weights alone: an optimizer and a step beside them would be lost.
    """
    for source in sources:
        try:
            same = os.path.samefile(out, source)
        except (OSError, ValueError):
            continue  # one of the two does not exist
        if same:
            raise CheckpointError(
                f"{out} is {source} itself, of which --fix would keep the weights alone: name "
                "another file for OUT.",
                "same file",
            )


def write_weights(weights: Mapping[str, Any], out: Path, force: bool = False) -> int:
    """Saves to a temporary file in the same folder, flushes, renames. Returns the size in bytes.

    Args:
        weights: What to save: a state dict.
        out: The new file; in the safetensors format if its name ends so.
        force: Whether a file of that name is replaced.

    Raises:
        CheckpointError: It exists, or cannot be written.
    """
    if out.exists() and not force:
        raise CheckpointError(f"{out} exists; --force replaces it.")
    if out.is_dir():
        raise CheckpointError(f"{out} is a folder.")
    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.", suffix=".tmp")
        os.close(handle)
    except OSError as error:
        raise CheckpointError(f"{out} cannot be written: {error.strerror}.") from None
    try:
        if out.suffix == ".safetensors":
            from .safewrite import write_safetensors

            write_safetensors(weights, Path(name))
        else:
            import torch

            torch.save(weights, name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        if force:
            os.replace(name, out)
        else:
            os.link(name, out)  # fails if somebody else has made it in the meantime
            os.unlink(name)
        return size
    except FileExistsError:
        raise CheckpointError(f"{out} exists; --force replaces it.") from None
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{out} cannot be written: {str(error).splitlines()[0]}.") from None
    finally:
        if os.path.exists(name):
            os.unlink(name)


def numel(tensors: Mapping[str, TensorInfo]) -> int:
    """Number of elements of all tensors together."""
    return sum(count(info.shape) for info in tensors.values())
