"""Asks a child process for the names and shapes of the user's model."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..formats.values import CheckpointError, TensorInfo, count
from .ending import MARK, end_all

SOURCE = Path(__file__).with_name("modelside.py")
PATIENCE = 3.0  # seconds of silence


@dataclass
class ModelNames:
    """A model, as its state dict names it.

    Attributes:
        name: Its class.
        tensors: Name and description of each tensor, in the model's order; None if lazy.
        note: What is worth knowing of how it was built, or "".
    """

    name: str
    tensors: dict[str, TensorInfo | None]
    note: str = ""


def build_names(spec: str, timeout: float = 120) -> ModelNames:
    """Builds ``MODULE:CALLABLE`` in a child process, on the meta device where it can.

    Args:
        spec: As in "train:Net" or "models/net.py:build". The callable takes no arguments.
        timeout: Seconds after which the child is ended.

    Raises:
        CheckpointError: It cannot be built: one sentence.
    """
    if not spec.rpartition(":")[0] or not spec.rpartition(":")[2]:
        raise CheckpointError(
            f"--model {spec} is not of the form MODULE:CALLABLE, such as train:Net or net.py:Net."
        )
    with tempfile.TemporaryDirectory() as folder:
        told, code, said = _ask(spec, Path(folder), timeout)
    if told is None:
        raise CheckpointError(_ended(spec, code, said))
    if "error" in told:
        raise CheckpointError(_why(spec, told))
    tensors: dict[str, TensorInfo | None] = {}
    for name, shape, dtype, identity, sort in told["tensors"]:
        tensors[name] = None
        if shape is not None:
            sizes = tuple(shape)
            tensors[name] = TensorInfo(sizes, dtype, "meta", str(identity), count(sizes), kind=sort)
    if not tensors:
        raise CheckpointError(f"--model {spec} gave a {told['class']} without any tensor.")
    note = "" if told["device"] != "cpu" else f"{spec} was built on the CPU: not on meta."
    return ModelNames(told["class"], tensors, note)


def _ask(spec: str, folder: Path, timeout: float) -> tuple[Any, int, str]:
    """The child's answer (None if it gave none), its exit code, and the last line it said.

    Answer and errors go through files, so that nothing which the child has started, and which
    outlives it, is waited for. All of that is ended.
    """
    answer, errors = folder / "answer.json", folder / "errors.txt"
    command = [sys.executable, "-c", SOURCE.read_text(encoding="utf-8"), spec, str(answer)]
    mark = f"loadwrap-{secrets.token_hex(16)}"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", MARK: mark}
    with errors.open("wb") as said:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    try:
        _wait(child, answer, timeout, spec)
    except subprocess.TimeoutExpired:
        raise CheckpointError(
            f"--model {spec} was not built within {timeout:.0f} s; does its module train when "
            "it is imported? (--timeout SECONDS allows more.)"
        ) from None
    finally:
        end_all(child, mark)
    try:
        told = json.loads(answer.read_text())
    except (OSError, ValueError):
        told = None
    with errors.open("rb") as file:
        file.seek(max(0, errors.stat().st_size - 10_000))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return told, child.returncode, lines[-1] if lines else ""


def _wait(child: subprocess.Popen[bytes], answer: Path, timeout: float, spec: str) -> None:
    """Waits for the answer or for the child's end; says so if that takes long.

    Raises:
        subprocess.TimeoutExpired: Neither came in time.
    """
    began = time.monotonic()
    told = timeout <= PATIENCE or not sys.stderr.isatty()
    while not answer.exists():
        left = began + timeout - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired(child.args, timeout)
        try:
            child.wait(min(0.05, left))
            return
        except subprocess.TimeoutExpired:
            if not told and time.monotonic() - began > PATIENCE:
                print(f"building {spec} …", file=sys.stderr)
                told = True


def _ended(spec: str, code: int, said: str) -> str:
    end = f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
    words = f" and said {said[:200]!r}" if said else ""
    return f"--model {spec}: the process that builds it {end}{words}."


def _why(spec: str, told: dict[str, str]) -> str:
    module, _, name = spec.rpartition(":")
    kind, message, where = told["error"], told["message"].splitlines() or [""], told["where"]
    place = f" (at {where})" if where else ""
    if kind == "ModuleNotFoundError" and f"'{module.split('.')[0]}'" in message[0]:
        return (
            f"There is no module {module} in {Path.cwd()} or on sys.path: run this where `python "
            f"-c 'import {module}'` works, or give the file, as in path/to/net.py:{name}."
        )
    if kind == "AttributeError" and not where:
        return f"{module} has no {name}: {message[0]}."
    if kind == "TypeError" and "required" in message[0] and "argument" in message[0]:
        return (
            f"{spec} needs arguments ({message[0]}): write a function without any that builds the "
            "model, and name that."
        )
    if kind == "SystemExit":
        return (
            f"Importing {module} ended its process{place}: put what it runs below "
            '`if __name__ == "__main__":`.'
        )
    return f"--model {spec} cannot be built: {kind}: {message[0][:300]}{place}."
