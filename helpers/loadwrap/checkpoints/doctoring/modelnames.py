"""Asks a child process for the names and shapes of the user's model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..formats.values import CheckpointError, TensorInfo, count

SOURCE = Path(__file__).with_name("modelside.py")


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
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-c", SOURCE.read_text(encoding="utf-8"), spec, str(answer)]
        quiet = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        # In a process group of its own nothing of it is left behind after the time is up.
        child = subprocess.Popen(
            command,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            errors = _wait(child, timeout, spec)
        except subprocess.TimeoutExpired:
            raise CheckpointError(
                f"--model {spec} was not built within {timeout:.0f} s; does its module train when "
                "it is imported? (--timeout SECONDS allows more.)"
            ) from None
        finally:
            _end(child)
        try:
            told = json.loads(answer.read_text())
        except (OSError, ValueError):
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing"]
            raise CheckpointError(
                f"--model {spec}: the process that builds it ended with code {child.returncode} "
                f"and said {last[0][:200]!r}."
            ) from None
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


def _wait(child: subprocess.Popen[bytes], timeout: float, spec: str) -> bytes:
    """What the child said on stderr, once it has ended; says so itself if that takes long."""
    patience = min(3.0, timeout)
    try:
        return child.communicate(timeout=patience)[1]
    except subprocess.TimeoutExpired:
        if timeout > patience and sys.stderr.isatty():
            print(f"building {spec} …", file=sys.stderr)
    return child.communicate(timeout=max(timeout - patience, 0.001))[1]


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        try:
            os.killpg(child.pid, 9)
        except (ProcessLookupError, PermissionError):
            child.kill()
        child.communicate()


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
