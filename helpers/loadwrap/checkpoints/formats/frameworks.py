"""DeepSpeed's and Megatron's folders: named, explained, and looked into."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .checkpoint import Checkpoint
from .textfiles import inside, read_line
from .values import CheckpointError
from .words import plural, some

Open = Callable[[Path], Checkpoint]

_MODEL = re.compile(r"(?:zero_pp_rank_\d+_)?mp_rank_(\d+)_model_states\.pt")
_SHARD = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_RANK = re.compile(r"mp_rank_\d+(?:_\d+)*")


def read_deepspeed(path: Path, names: list[str], opened: Open) -> Checkpoint | None:
    """A DeepSpeed folder, or the one of its steps that ``latest`` names; None if it is none."""
    if not any(_MODEL.fullmatch(name) or _SHARD.fullmatch(name) for name in names):
        steps = [n for n in names if re.fullmatch(r"global_step\d+", n) and (path / n).is_dir()]
        if "latest" not in names and not steps:
            return None
        tag = read_line(path / "latest") if "latest" in names else max(steps, key=_step)
        place = inside(path, tag or "")
        if place is None or not place.is_dir():
            if not steps:
                return None
            raise CheckpointError(
                f"{path} is a DeepSpeed folder whose file `latest` names {tag!r}, which is not "
                f"there (there is {some(sorted(steps, key=_step, reverse=True))}).",
                "unfinished",
            )
        found = read_deepspeed(place, sorted(c.name for c in place.iterdir()), opened)
        if found is None:
            raise CheckpointError(
                f"{place}, which {path}/latest names, holds no file of DeepSpeed's: the save did "
                "not finish, or it is on another node.",
                "unfinished",
            )
        newer = [step for step in steps if _step(step) > _step(tag or "")]
        if newer:
            found.notes.append(
                f"`latest` names {tag}, but {some(newer)} is newer: the save of it was "
                "interrupted, or `latest` was edited."
            )
        return found
    models = [name for name in names if _MODEL.fullmatch(name)]
    shards = [name for name in names if _SHARD.fullmatch(name)]
    if not models:
        raise CheckpointError(
            f"{path} holds DeepSpeed's optimizer shards without their mp_rank_*_model_states.pt.",
            "unfinished",
        )
    first = opened(path / models[0])
    found = _around(path, "deepspeed", first, [*models, *shards])
    tree = first.tree if isinstance(first.tree, dict) else {}
    size = tree.get("dp_world_size")
    ranks = {int(match[1]) for name in shards if (match := _SHARD.fullmatch(name))}
    if isinstance(size, int) and shards and 0 < size < 1 << 20:
        lacking = [rank for rank in range(size) if rank not in ranks]
        if lacking:
            found.problems.append(
                f"{len(lacking)} of {size} optimizer shards missing, rank {lacking[0]}'s first: "
                "each rank wrote its own, so they may be on other nodes."
            )
        found.notes.append(f"Saved by {size} data-parallel ranks; DeepSpeed resumes it on as many.")
    found.contents = {"model": models, **({"optimizer": shards} if shards else {})}
    placeholder = any(name.startswith("zero_pp_rank") for name in models)
    found.notes.append(
        'The weights are in ckpt["module"] (a key, not a prefix)'
        + (
            "; under ZeRO stage 3 they are placeholders there: run zero_to_fp32.py, which lies in "
            "the folder above, to gather them."
            if placeholder
            else "; fp32 copies are in the optimizer shards (zero_to_fp32.py gathers them)."
        )
    )
    return found


def read_megatron(path: Path, names: list[str], opened: Open) -> Checkpoint | None:
    """A Megatron folder, or the iteration its text file names; None if it is none."""
    tracker = "latest_checkpointed_iteration.txt"
    ranks = [name for name in names if _RANK.fullmatch(name) and (path / name).is_dir()]
    if ranks:
        files = [path / name / "model_optim_rng.pt" for name in ranks]
        there = [file for file in files if file.is_file()]
        if not there:
            raise CheckpointError(
                f"{path} is a Megatron folder without a model_optim_rng.pt in its {some(ranks)}.",
                "unfinished",
            )
        first = opened(there[0])
        found = _around(path, "megatron", first, [f"{f.parent.name}/{f.name}" for f in there])
        if len(there) < len(files):
            lost = [file.parent.name for file in files if file not in there]
            found.problems.append(f"{plural(len(lost), 'rank')} without its file: {some(lost)}.")
        found.notes.append(
            f"The model is split over {plural(len(ranks), 'model-parallel rank')}; what follows "
            f"is {there[0].parent.name}'s part. Convert it with Megatron's tools/checkpoint to "
            "load it elsewhere."
        )
        return found
    steps = [n for n in names if re.fullmatch(r"iter_\d+", n) and (path / n).is_dir()]
    if tracker not in names and not steps:
        return None
    told = read_line(path / tracker) if tracker in names else None
    if told == "release":
        tag = "release"
    elif told is not None and told.isdecimal() and len(told) < 12:
        tag = f"iter_{int(told):07d}"
    else:
        tag = max(steps, key=_step) if steps else ""
    place = inside(path, tag)
    if place is None or not place.is_dir():
        raise CheckpointError(
            f"{path} is a Megatron folder whose {tracker} names iteration {told}, which is not "
            f"there ({'there is ' + some(steps) if steps else 'there is none'}).",
            "unfinished",
        )
    below = sorted(child.name for child in place.iterdir())
    if ".metadata" in below:
        return opened(place)
    found_below = read_megatron(place, below, opened)
    if found_below is None:
        raise CheckpointError(f"{place} holds no mp_rank_* folder of Megatron's.", "unfinished")
    return found_below


def _around(path: Path, kind: str, first: Checkpoint, names: list[str]) -> Checkpoint:
    """A folder of files of which the first has been opened."""
    found = Checkpoint(path, kind, first.tree)
    found.files = [path / name for name in names]
    found.nbytes = sum(file.stat().st_size for file in found.files)
    found.problems, found.notes = list(first.problems), list(first.notes)
    found.refusals, found.opcode, found.protocol = first.refusals, first.opcode, first.protocol
    found.locate, found.parts = first.locate, first.parts
    empty = [file.name for file in found.files if file.stat().st_size == 0]
    if empty:
        found.problems.append(f"{plural(len(empty), 'file')} with 0 bytes: {some(empty)}.")
    return found


def _step(name: str) -> int:
    digits = re.findall(r"\d{1,18}", name)
    return int(digits[-1]) if digits else -1
