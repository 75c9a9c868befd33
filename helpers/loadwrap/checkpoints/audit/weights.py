"""Which share of the parameters, and of the buffers, really holds what the file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from .bits import difference, equal
from .findings import (
    AVERAGE,
    BUFFER,
    BY_DESIGN,
    DESTROYED,
    LAYOUT,
    NESTED,
    NOT_LOADED,
    NOT_RECORDED,
    OK,
    PREFIX,
    Finding,
    fault,
    number,
    some,
)
from .live import Live, part_of
from .pairing import Pairing, pair_entry

Keep = Callable[[str], bool]


def check_tensors(
    pairing: Pairing | None, live: Live, average: Any, keep: Keep, around: str = ""
) -> Finding:
    """Compares every parameter with the file's, bit by bit.

    Args:
        pairing: The weights of the file under the live names.
        live: The model.
        average: The file's moving average, if it has one.
        keep: Says whether a tensor's name is asked for.
        around: The segment of a wrapper around the model, if other parts of the checkpoint were
            loaded: names without it are then why the weights were not.
    """
    wanted = {
        name: tensor
        for name, tensor in live.parameters.items()
        if keep(name) and name not in live.sharded
    }
    if pairing is None:
        return Finding(NOT_RECORDED, "the file holds no weights: nothing can be compared")
    shards = _shards(pairing, live, keep)
    wrong = [name for name, right in shards.items() if right is False]
    if wrong:
        words = f"{len(shards) - len(wrong)} of {len(shards)} sharded ones loaded: {some(wrong)}"
        return fault(NOT_LOADED, f"{words} differ from the file", nothing=len(wrong) == len(shards))
    aside = _aside(shards, live, keep)
    if not wanted and live.sharded:
        verdict = OK if shards and all(shards.values()) else BY_DESIGN
        return Finding(verdict, aside.removeprefix(", "))
    bad = [name for name, tensor in wanted.items() if not _loaded(name, tensor, pairing, live)]
    good = len(wanted) - len(bad)
    if not bad:
        apart = _untied(wanted, pairing)
        if apart:
            return fault(LAYOUT, f"{apart} are one tensor in the file and two in the model")
        where = f' from ["{pairing.container}"]' if pairing.container else ""
        return Finding(OK, f"{good} of {len(wanted)} as in the file{where}{aside}")
    found = _blame(f"{good} of {len(wanted)} loaded", bad, wanted, pairing, average)
    if found.code == NOT_LOADED and not good and around and not pairing.renamed and pairing.saved:
        first = next(iter(pairing.names))
        words = f"{found.words}. The wrapper says {around}.{first}: load into the model inside"
        found = fault(PREFIX if around == "module" else NESTED, words)
    return replace(found, nothing=good == 0)


def check_buffers(pairing: Pairing | None, live: Live, keep: Keep) -> Finding:
    """The same for the buffers that a state dict holds."""
    wanted = {
        name: tensor
        for name, tensor in live.buffers.items()
        if keep(name) and name not in live.sharded
    }
    if not wanted:
        return Finding(OK, "the model keeps none" if not live.buffers else "none to compare")
    if pairing is None:
        return Finding(NOT_RECORDED, "the file holds no weights")
    absent = [name for name in wanted if name not in pairing.saved]
    bad = [
        name
        for name, tensor in wanted.items()
        if name in pairing.saved and not equal(tensor, pairing.saved[name])
    ]
    if not absent and not bad:
        return Finding(OK, f"{len(wanted)} of {len(wanted)} as in the file")
    share = f"{len(wanted) - len(absent) - len(bad)} of {len(wanted)} loaded"
    if absent and len(absent) == len(wanted):
        return fault(BUFFER, f"{share}: the file holds no buffers ({some(absent)})")
    if absent:
        return fault(BUFFER, f"{share}: not in the file: {some(absent)}")
    return fault(BUFFER, f"{share}: {_gap(bad, wanted, pairing)}")


def _shards(pairing: Pairing, live: Live, keep: Keep) -> dict[str, bool | None]:
    """Returns whether each shard is the file's part; None where that cannot be told."""
    found: dict[str, bool | None] = {}
    for name in sorted(filter(keep, live.sharded & live.parameters.keys())):
        saved, tensor = pairing.saved.get(name), live.parameters[name]
        part = part_of(saved, tensor) if saved is not None else None
        found[name] = None if part is None else equal(tensor, part)
    return found


def _aside(shards: Mapping[str, bool | None], live: Live, keep: Keep) -> str:
    left = sum(not keep(name) for name in live.parameters)
    words = f", {left} ignored" if left else ""
    known = sum(right is not None for right in shards.values())
    if known:
        words += f", {known} sharded ones hold their part of the file"
    if known < len(shards):
        words += f", {len(shards) - known} sharded ones not compared"
    return words


def _loaded(name: str, tensor: Tensor, pairing: Pairing, live: Live) -> bool:
    if name in pairing.saved:
        return equal(tensor, pairing.saved[name])
    # The file keeps one of several names of a tensor: fine if the model has one tensor as well.
    for other, saved in pairing.saved.items():
        twin = live.parameters.get(other)
        if twin is not None and _same_memory(twin, tensor):
            return equal(tensor, saved)
    return False


def _same_memory(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    if one.shape != other.shape or one.numel() == 0 or one.device != other.device:
        return False
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride()


def _untied(wanted: Mapping[str, Tensor], pairing: Pairing) -> str:
    """Names two parameters that the file stores as one and the model no longer does."""
    first: dict[tuple[Any, ...], str] = {}
    for name in wanted:
        saved = pairing.saved.get(name)
        if saved is None or saved.numel() == 0 or saved.device.type == "meta":
            continue
        place = (saved.data_ptr(), saved.shape, saved.stride(), saved.dtype)
        other = first.setdefault(place, name)
        if other != name and not _same_memory(wanted[other], wanted[name]):
            return f"{other} and {name}"
    return ""


def _blame(
    share: str, bad: list[str], wanted: Mapping[str, Tensor], pairing: Pairing, average: Any
) -> Finding:
    absent = [name for name in bad if name not in pairing.saved]
    if not pairing.saved:
        return fault(
            NOT_LOADED, f"{share}: no tensor of the file has a name and shape of the model"
        )
    if len(absent) == len(bad):
        shapes = [name for name in absent if name in pairing.other_shape]
        why = f"{some(shapes)}: another shape in the file" if shapes else (
            f"{some(absent)}: not in the file"
        )  # fmt: skip
        return fault(NOT_LOADED, f"{share}; {why}, so still at the initial values")
    if isinstance(average, Mapping) and _is_average(bad, wanted, average):
        return fault(AVERAGE, f"{share}: the model holds the moving average, not the weights")
    gap = _gap([name for name in bad if name in pairing.saved], wanted, pairing)
    renamed = pairing.renamed & wanted.keys()
    if renamed and renamed <= set(bad):
        cause, code = _names(pairing, next(name for name in wanted if name in renamed))
        return fault(code, f"{share}: {cause}, so it was not taken; {gap}")
    # What replace("module.", "") spoils is exactly what is missing.
    spoiled = {name for name in wanted if "module." in name}
    if spoiled and spoiled == set(bad):
        words = f'just the names that replace("module.", "") cuts were not taken: {some(bad)}'
        return fault(DESTROYED, f"{share}; {words}")
    return fault(NOT_LOADED, f"{share}: {gap}")


def _names(pairing: Pairing, example: str) -> tuple[str, str]:
    name = pairing.names[example]
    if pairing.prefix and not pairing.wrappers:
        code = PREFIX if set(pairing.prefix.split(".")) == {"module"} else LAYOUT
        if pairing.prefix.count(".") and code == PREFIX:
            code = NESTED
    elif pairing.wrappers == ("module",) and not pairing.prefix and (
        name.partition(".")[0] == "module" or example.partition(".")[0] == "module"
    ):  # fmt: skip
        code = PREFIX
    elif pairing.wrappers or pairing.prefix:
        parts = {*pairing.wrappers, *filter(None, pairing.prefix.split("."))}
        known = {part for part in parts if part.startswith("_") or part == "module"}
        code = NESTED if parts == known else LAYOUT
    else:
        code = LAYOUT
    return f"the file says {name} where the model says {example}", code


def _gap(bad: list[str], wanted: Mapping[str, Tensor], pairing: Pairing) -> str:
    first = bad[0]
    distance = difference(wanted[first], pairing.saved[first])
    return f"{some(bad)} differ from the file, {first} by up to {number(distance)}"


def _is_average(bad: list[str], wanted: Mapping[str, Tensor], average: Mapping[str, Any]) -> bool:
    found = pair_entry(average, wanted)
    return found is not None and all(
        name in found.saved and equal(wanted[name], found.saved[name]) for name in bad
    )
