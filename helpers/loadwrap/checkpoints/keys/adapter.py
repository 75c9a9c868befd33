"""Adapters (LoRA and its relatives): small tensors beside a model, which are not its weights."""

from __future__ import annotations

from collections.abc import Mapping

from .sides import Side

_PARTS = {
    "lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector",
    "hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "ia3_l", "oft_r", "vera_lambda_d",
}  # fmt: skip


def adapter_part(name: str) -> bool:
    """Says whether a name is that of an adapter's tensor."""
    return not _PARTS.isdisjoint(name.split("."))


def is_adapter(names: Mapping[str, object]) -> bool:
    """Says whether the names are an adapter's rather than a model's."""
    found = sum(map(adapter_part, names))
    return bool(found) and 2 * found >= len(names)


def adapter_name(pairs: Mapping[str, str]) -> str:
    """Returns the name that the adapter has in memory, such as `default`; "" if none was added."""
    for name, target in pairs.items():
        before, after = name.split("."), target.split(".")
        if len(after) == len(before) + 1:
            at = next(index for index, part in enumerate(before) if part in _PARTS)
            return after[at + 1]
    return ""


def into_adapted(file: Side, model: Side) -> dict[str, str]:
    """Maps an adapter's names to those that the adapted model has in memory.

    In memory the adapter's own name (`default`) follows: `lora_A.weight` is
    `lora_A.default.weight`.

    Returns:
        Names of the file to names of the model; empty unless every one of the file's tensors
        has its own place, of its shape, and every adapter tensor of the model gets one.
    """
    places: dict[str, list[str]] = {}
    for name in model.entries:
        path = name.split(".")
        at = next((index for index, part in enumerate(path) if part in _PARTS), None)
        if at is not None:
            # ParameterDicts (lora_embedding_A) end with the adapter's name.
            places.setdefault(".".join(path[: at + 1] + path[at + 2 :]), []).append(name)
            places.setdefault(name, []).append(name)
    pairs = {}
    for name, entry in file.entries.items():
        found = set(places.get(name, ()))
        if len(found) != 1:
            return {}
        target = found.pop()
        shape = model.entries[target].shape
        if None not in (shape, entry.shape) and shape != entry.shape:
            return {}
        pairs[name] = target
    wanted = {name for name in model.entries if adapter_part(name)}
    return pairs if set(pairs.values()) == wanted else {}
