"""One examination of a checkpoint: what the report and the JSON are written from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats import open_checkpoint
from ..formats.checkpoint import Checkpoint
from ..formats.values import CheckpointError, TensorInfo
from ..formats.words import quoted
from .contents import Contents, read_contents
from .deep import Examined, Progress, examine
from .refusals import allowance, dangerous
from .weights import Weights, find_weights, for_keys

if TYPE_CHECKING:
    from ..keys.report import KeyReport


@dataclass
class Examination:
    """Everything that was found out about a file.

    Attributes:
        checkpoint: Its headers.
        contents: The parts of a training run in it.
        against: What it was compared with, in words, or "".
        keys: How its weights fit that, or None.
        deep: What a reading of every byte found, or None.
        notes: What is worth knowing besides.
        written: What --fix wrote, in a sentence, or "".
        refused: Why --fix wrote nothing, in a sentence, or "".
    """

    checkpoint: Checkpoint
    contents: Contents
    against: str = ""
    keys: KeyReport | None = None
    deep: Examined | None = None
    notes: list[str] = field(default_factory=list)
    written: str = ""
    refused: str = ""

    @property
    def sound(self) -> bool:
        """Whether the file is whole and safe to read."""
        known = self.checkpoint
        damaged = self.deep is not None and bool(self.deep.damages)
        return not (known.problems or known.refusals or known.opcode or damaged)

    @property
    def code(self) -> int:
        """The exit code: 2 not readable or not safe to read, 1 a mismatch, 0 neither."""
        whole = not self.checkpoint.problems and not any(
            dangerous(one.name) for one in self.checkpoint.refusals
        )
        if self.written and whole:
            return 0
        if not self.sound or self.refused.startswith("!"):
            return 2
        if self.keys is None or self.keys.matches or self.written:
            return 0
        return 1


def examine_file(
    path: str,
    model: str | None = None,
    like: str | None = None,
    deep: bool = False,
    timeout: float = 120,
) -> Examination:
    """Looks at a file, and compares it with a model or with another file.

    Raises:
        CheckpointError: The file, the model or the other file cannot be read: one sentence.
    """
    checkpoint = open_checkpoint(path)
    found = Examination(checkpoint, read_contents(checkpoint))
    found.notes += _name_notes(found.contents.weights)
    other: dict[str, Any] = {}
    if model is not None:
        from .modelnames import build_names

        built = build_names(model, timeout)
        other, found.against = built.tensors, f"{model} ({built.name})"
        found.notes += [built.note] if built.note else []
    elif like is not None:
        other, found.against = _weights_of(like)
    if other:
        from ..keys.explain import explain_keys

        found.keys = explain_keys(for_keys(checkpoint.tree), other)
    if deep:
        progress = Progress(sum(part.nbytes for part in checkpoint.parts()))
        found.deep = examine(checkpoint, progress)
        progress.finish()
    return found


def _weights_of(like: str) -> tuple[dict[str, TensorInfo], str]:
    """The weights of the file to compare with."""
    candidates = find_weights(open_checkpoint(like).tree)
    if not candidates:
        raise CheckpointError(f"{like}, to compare with, holds no weights.")
    best = candidates[0]
    entry = f" ({best.code})" if best.path else ""
    return best.tensors, f"{Path(like)}{entry}"


def key_text(found: Examination, text: str) -> str:
    """A text about keys; a file that is itself a pickled module is asked for its state dict."""
    picked = chosen(found)
    if picked is None or not picked.pickled or picked.path:
        return text
    return re.sub(r"\bckpt\b(?![\[.])", "ckpt.state_dict()", text)


def how_to_load(checkpoint: Checkpoint) -> str:
    """The line that makes the ``ckpt`` of the other lines."""
    path = quoted(str(checkpoint.path))
    if checkpoint.kind == "safetensors":
        return f"from safetensors.torch import load_file; ckpt = load_file({path})"
    if checkpoint.kind == "torchscript":
        return f'ckpt = torch.jit.load({path}, map_location="cpu").state_dict()'
    if checkpoint.kind == "hf-sharded":
        names = sorted({file.name for file in checkpoint.files[1:]})
        suffix = Path(names[0]).suffix if names else ".bin"
        each = "load_file(f)" if suffix == ".safetensors" else 'torch.load(f, map_location="cpu")'
        first = "from safetensors.torch import load_file; " if "load_file" in each else ""
        return (
            f'{first}ckpt = {{k: v for f in pathlib.Path({path}).glob("*{suffix}") '
            f"for k, v in {each}.items()}}"
        )
    if checkpoint.kind in ("hf-folder", "deepspeed", "megatron"):
        file = checkpoint.files[0]
        name = quoted(str(file))
        if file.suffix == ".safetensors":
            return f"from safetensors.torch import load_file; ckpt = load_file({name})"
        return f'ckpt = torch.load({name}, map_location="cpu")'
    if checkpoint.kind == "dcp":
        return (
            'ckpt = torch.load("OUT.pt", map_location="cpu")  # the file that the line above made'
        )
    line = f'ckpt = torch.load({path}, map_location="cpu")'
    if any(one.pickled for one in find_weights(checkpoint.tree)):
        return f"{line[:-1]}, weights_only=False)  # runs the code of its classes"
    allowed = allowance(checkpoint)
    if allowed is not None and len(allowed[1]) < 60:
        allow = f"torch.serialization.add_safe_globals([{allowed[1]}]); "
        return f"{allowed[0]}; {allow}{line}" if allowed[0] else f"{allow}{line}"
    refused = checkpoint.refusals or checkpoint.opcode
    return f"{line}  # refused as the file is: see above" if refused else line


def _name_notes(weights: list[Weights]) -> list[str]:
    """What the names alone give away."""
    names = [name for one in weights[:6] for name in one.tensors]
    notes = []
    if any(name.endswith("_flat_param") for name in names):
        notes.append(
            "_flat_param: one rank's shard of an FSDP model, not its weights. Load it under the "
            "same wrapping on as many ranks, and save a full state dict there."
        )
    if any(".lora_A." in name or ".lora_B." in name for name in names):
        notes.append("lora_A, lora_B: an adapter; load it onto its base model, which is not here.")
    return notes


def chosen(found: Examination) -> Weights | None:
    """The entry with the weights: the one that fits, or else the likeliest."""
    weights = found.contents.weights
    if found.keys is not None:
        for one in weights:
            if ".".join(map(str, one.path)) == found.keys.container:
                return one
    return weights[0] if weights else None


def write_fix(found: Examination, out: str, force: bool, subset: bool = False) -> None:
    """Writes the renamed weights to ``out`` if a rename makes them fit, or says why not.

    Raises:
        CheckpointError: ``out`` is one of the checkpoint's own files.
    """
    from ..keys.rename import KeyRenameError
    from .fix import keep_sources, read_weights, write_weights
    from .weights import at

    keep_sources(out, found.checkpoint.files)
    weights = chosen(found)
    assert found.keys is not None
    if weights is None:
        found.refused = "--fix wrote nothing: there are no weights in the file."
        return
    if not found.keys.fix:
        found.refused = "--fix wrote nothing: no rename makes these weights fit."
        return
    try:
        place = at(found.checkpoint.tree, weights.path)
        metadata = getattr(place, "attributes", {})
        metadata = metadata.get("_metadata") if isinstance(metadata, dict) else None
        names = found.keys.rename(dict(weights.tensors), subset)  # refused before anything is read
        held = read_weights(found.checkpoint, weights.tensors, metadata)
        renamed = found.keys.rename(held, subset)
        size = write_weights(renamed, Path(out), force)
    except KeyRenameError as error:
        why = str(error).replace("rename(…, subset=True)", "--subset")
        found.refused = f"--fix wrote nothing: {why}"
        return
    except CheckpointError as error:
        found.refused = f"!--fix wrote nothing: {error}"
        return
    found.written = f"Wrote {len(names):,} tensors, {size:,} bytes, to {out}"
