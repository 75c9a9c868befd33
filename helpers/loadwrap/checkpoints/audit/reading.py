"""Reads a ``torch.save`` file without running anything that lies in it."""

from __future__ import annotations

import io
import pickle
import types
import warnings
from pathlib import Path
from typing import Any

import torch

from ..files.places import not_regular
from ..formats.allowed import ALLOWED, renamed


class AuditError(RuntimeError):
    """The audit could not be made: a sentence that says why, the same on every rank."""


class Refused(dict[Any, Any]):
    """Stands for an object whose class is not to be trusted; it does nothing.

    A dict, so that what lies in a defaultdict or another kind of dict is still found.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Takes what a pickled list would."""

    def extend(self, values: Any) -> None:
        """Takes what a pickled list would."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns what ``weights_only`` trusts, and a stand-in for anything else."""
        if renamed(module, name) in ALLOWED:
            return super().find_class(module, name)
        return type(name.rpartition(".")[2] or "Refused", (Refused,), {"__module__": module})


def _load(file: Any, **options: Any) -> Any:
    return _Unpickler(file, **options).load()


def _loads(data: bytes, **options: Any) -> Any:
    return _Unpickler(io.BytesIO(data), **options).load()


# What torch.load asks of a `pickle_module`.
_inert = types.ModuleType("inert_pickle")
_inert.Unpickler = _Unpickler  # type: ignore[attr-defined]
_inert.load = _load  # type: ignore[attr-defined]
_inert.loads = _loads  # type: ignore[attr-defined]


def read(path: Path) -> Any:
    """Returns what a file holds, on the CPU, its tensors mapped from the disk where they can be.

    Objects of classes that ``weights_only=True`` refuses become `Refused`.

    Raises:
        AuditError: It cannot be read.
    """
    if wrong := not_regular(path):
        raise AuditError(f"{path} {wrong}")
    if not path.is_file():
        raise AuditError(f"{path}: no such file")
    error: Exception | None = None
    for options in (
        {"weights_only": True, "mmap": True},
        {"weights_only": True},  # the old format cannot be mapped
        {"weights_only": False, "mmap": True, "pickle_module": _inert},
        {"weights_only": False, "pickle_module": _inert},
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.load(path, map_location="cpu", **options)
        except Exception as failure:  # torn files raise almost anything
            error = error or failure
    first = str(error).strip().splitlines()
    raise AuditError(
        f"{path}: torch.load cannot read it ({first[0][:120] if first else type(error).__name__}): "
        "`loadwrap doctor` names what it is"
    )
