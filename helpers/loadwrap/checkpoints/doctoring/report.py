"""The doctor's answer as a few lines for a person."""

from __future__ import annotations

import re
import textwrap
from collections import Counter

from ..formats.checkpoint import KINDS
from ..formats.values import Blob, StateDict, TensorInfo
from ..formats.words import one_line, plural, shortened, size_words
from ..keys.segments import WRAPPERS
from .examination import Examination, chosen, how_to_load, key_text
from .fix import numel
from .optimizers import Optimizer
from .refusals import refusal_lines
from .weights import Weights

WIDTH = 100
_LABELS = {
    "epoch": "epoch",
    "step": "step",
    "optimizer": "optimizer",
    "scheduler": "scheduler",
    "scaler": "AMP scaler",
    "ema": "EMA",
    "rng": "random state",
    "sampler": "data position",
}


def write_report(found: Examination) -> str:
    """Says what the file is, what is in it, what is wrong with it, and whether it fits."""
    checkpoint = found.checkpoint
    kind = KINDS.get(checkpoint.kind, checkpoint.kind)
    lines = [f"{checkpoint.path}: {kind}, {size_words(checkpoint.nbytes)}"]
    lines += [f"PROBLEM: {_sentence(problem)}" for problem in checkpoint.problems]
    lines += _deep_lines(found)
    lines += _content_lines(found)
    lines += [*checkpoint.notes, *found.notes]
    lines += refusal_lines(checkpoint)
    if found.keys is not None:
        lines += ["", f"Against {found.against}:"]
        picked = chosen(found)
        opened = False
        for line in key_text(found, str(found.keys)).splitlines():
            if "load_state_dict(" in line and not opened and "ckpt" in line:
                # The column of the answer's own labels.
                label = "open".ljust(len(line) - len(line[2:].partition("  ")[2].lstrip()) - 2)
                lines.append(f"  {label}{how_to_load(checkpoint)}")
                opened = True
            lines.append(line)
        if picked is not None and picked.pickled and found.keys.after[0]:
            lines.append(
                f"  note       the file holds the whole {picked.pickled}, not its weights: loading "
                "it runs its code; --fix takes the weights out without"
            )
    if found.written:
        lines += ["", f"{found.written}."]
    if found.refused:
        lines += ["", found.refused.lstrip("!")]
    return "\n".join([one_line(lines[0]), *(wrapped(one_line(line)) for line in lines[1:])])


def _content_lines(found: Examination) -> list[str]:
    contents = found.contents
    largest = max((len(one.tensors) for one in contents.weights), default=0)
    lines = [_weights_line(one, largest) for one in contents.weights[:6]]
    if len(contents.weights) > 6:
        lines.append(f"  … and {plural(len(contents.weights) - 6, 'more entry')} with tensors")
    if not contents.weights:
        readable = "the file is readable, but " if found.sound else ""
        lines.append(f"  weights        none: {readable}{_instead(found)}")
    lines += [_optimizer_line(one) for one in contents.optimizers[:4]]
    for part, label in _LABELS.items():
        if part == "optimizer" and contents.optimizers:
            continue
        if part == "ema" and any(one.average for one in contents.weights):
            continue
        for one in contents.parts.get(part, [])[:3]:
            words = f": {one.words}" if one.words else ""
            lines.append(f"  {label:<14} {one.where}{words}")
    if contents.missing:
        lines.append(f"For a resume it lacks: {', '.join(contents.missing)}.")
        if contents.doubtful and contents.missing != ["optimizer", "scheduler"]:
            lines.append(
                "Not recorded either, needed if training used them: "
                f"{', '.join(contents.doubtful)}."
            )
    elif contents.doubtful:
        lines.append(f"Not recorded, needed if training used them: {', '.join(contents.doubtful)}.")
    return lines


def _instead(found: Examination) -> str:
    """What a file without weights holds."""
    tree = found.checkpoint.tree
    if tree is None or isinstance(tree, bool):
        return f"all it holds is {tree}"
    if isinstance(tree, (dict, list, tuple)):
        kind = "dict" if isinstance(tree, StateDict) else type(tree).__name__
        if not tree:
            return f"all it holds is an empty {kind}"
        return f"no entry of its {kind} holds tensors by name"
    if isinstance(tree, TensorInfo):
        return f"all it holds is one tensor without a name, {tree.dtype} {list(tree.shape)}"
    if isinstance(tree, (str, bytes, int, float)) or (isinstance(tree, Blob) and tree.text):
        kind = {"str": "string", "Blob": "string"}.get(type(tree).__name__, type(tree).__name__)
        return f"all it holds is one value of the type {kind}"
    return "it holds no tensors by name"


def _weights_line(one: Weights, largest: int) -> str:
    kinds = Counter[str]()
    devices = Counter[str]()
    for tensor in one.tensors.values():
        kinds[tensor.dtype] += 1
        devices[tensor.device] += 1
    types = ", ".join(kind for kind, _ in kinds.most_common(3))
    places = ", ".join(device for device, _ in devices.most_common(3))
    label = "EMA weights" if one.average else "weights"
    if len(one.tensors) <= 4 and largest >= 10:
        label = "other tensors"
    makers = dict(WRAPPERS, module="AveragedModel") if one.average else WRAPPERS
    wrapped = "".join(f"; all under {name}. (from {makers[name]})" for name in one.wrappers)
    saved = {"": "device not recorded", "sharded": "in shards"}.get(places, f"saved on {places}")
    pickled = f", inside a pickled {one.pickled}" if one.pickled else ""
    return (
        f"  {label:<14} {one.code}: {plural(len(one.tensors), 'tensor')}, "
        f"{numel(one.tensors):,} elements, {size_words(one.nbytes)}, {types}, "
        f"{saved}{pickled}; first {next(iter(one.tensors))}{wrapped}"
    )


def _optimizer_line(one: Optimizer) -> str:
    groups = f"{plural(one.parameters, 'parameter')} in {plural(one.groups, 'group')}"
    if one.stated:
        state = f"state of {one.stated:,} of them, {size_words(one.nbytes)}"
    elif one.kind == "SGD without momentum":
        state = "no state, as it needs none"
    else:
        state = "state EMPTY: no step was taken, or it was stripped"
    rates = f", lr {', '.join(f'{rate:.6g}' for rate in one.rates[:4])}" if one.rates else ""
    step = f", step {one.step:g}" if one.step is not None else ""
    return f"  optimizer      {one.where}: {one.kind}, {groups}, {state}{rates}{step}"


def _deep_lines(found: Examination) -> list[str]:
    deep = found.deep
    if deep is None:
        return []
    lines = [f"PROBLEM: {one.record} {one.words}." for one in (deep.damages or [])[:20]]
    if not deep.damages:
        if deep.checked == deep.nbytes:
            lines.append(f"Every byte read: all {size_words(deep.nbytes)} match their CRC.")
        else:
            lines.append(
                f"Every byte read: {size_words(deep.nbytes)}, of which {size_words(deep.checked)} "
                "have a checksum to be compared with."
            )
    lines += [
        f"Worth a look: {one.record} {one.words} in a row." for one in (deep.suspects or [])[:10]
    ]
    return lines


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def wrapped(line: str) -> str:
    """Breaks prose at the width; a line of code stays whole, to be copied."""
    if len(line) <= WIDTH or "ckpt = " in line or "load_state_dict(" in line:
        return line
    line = shortened(line)
    label = re.match(r"  \S+(?: \S+)* {2,}(?=\S)", line)
    indent = label.end() if label else 2
    return textwrap.fill(
        line, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
