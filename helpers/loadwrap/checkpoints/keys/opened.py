"""What is said about the checkpoint itself: how to open it, and what else it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.words import quoted
from .rename import some
from .sides import is_tensor

_HARMLESS = "argparse.Namespace"


def opening_line(path: str, kind: str, refusals: Sequence[Any], opcode: str = "") -> str:
    """Returns the line that opens a file of a kind, if one safe line does.

    No line opens a file with an `opcode` that torch.load refuses.
    """
    name = quoted(path)
    names = {one.name for one in refusals}
    if kind in ("zip", "legacy") and names <= {_HARMLESS} and not opcode:
        load = f'ckpt = torch.load({name}, map_location="cpu")'
        allow = f"import argparse; torch.serialization.add_safe_globals([{_HARMLESS}]); "
        return allow + load if names else load
    if kind == "safetensors":
        return f"from safetensors.torch import load_file; ckpt = load_file({name})"
    return ""


def refused(refusals: Sequence[Any], opcode: str = "") -> list[str]:
    """Says what torch.load does not take without executing it."""
    names = list(dict.fromkeys(one.name for one in refusals))
    if not names and opcode:
        names = [f"the pickle opcode {opcode}"]
    if not names:
        return []
    if names == [_HARMLESS] and not opcode:
        return [f"torch.load refuses {_HARMLESS} by default; it is harmless, so the line allows it"]
    return [
        f"torch.load refuses {some(names, 3)} in this file, and with weights_only=False would "
        f"execute it: `loadwrap doctor` says where it is and what is safe"
    ]


def top_level(tree: object) -> list[str]:
    """Lists the entries of a file without weights."""
    if not isinstance(tree, Mapping) or not tree:
        return []
    listed = (
        f"{key} ({'tensor' if is_tensor(value) else type(value).__name__})"
        for key, value in tree.items()
    )
    return [f"the file holds {some(listed, 12)}"]
