"""Errors of loading other than keys that do not meet: what each means, and what to do."""

from __future__ import annotations

import re

_KNOWN = (
    (
        r"Weights only load failed",
        "weights_only refuses an object in the file; run `loadwrap doctor FILE`: it names the "
        "class, where it is, and the safe way.",
    ),
    (
        r"failed finding central directory|PytorchStreamReader failed reading zip",
        "the file was cut short or damaged (its table of contents is missing); load the "
        "checkpoint before it.",
    ),
    (
        r"EOFError: Ran out of input|EOFError:?\s*$",
        "the file is empty or was cut short; load the checkpoint before it.",
    ),
    (
        r"invalid magic number|Invalid magic number|invalid load key",
        "the file is no checkpoint: a web page, a Git LFS pointer or another format; run "
        "`loadwrap doctor FILE`.",
    ),
    (
        r"doesn't match the size of optimizer's group|different number of parameter groups",
        "the optimizer was built over other parameters than the one that was saved (a frozen or "
        "added layer, another grouping); build it as it was before loading.",
    ),
    (
        r"Attempting to deserialize object on a CUDA device",
        "the tensors were saved on a GPU and there is none here: load with "
        'torch.load(path, map_location="cpu").',
    ),
    (
        r"No module named '?([\w.]+)'?",
        "the file holds a pickled object whose module cannot be imported here; run `loadwrap "
        "doctor FILE`: it reads the weights without it.",
    ),
    (
        r"KeyError: '(?:state_dict|model|model_state_dict|module)'",
        "the file has no such entry; run `loadwrap doctor FILE`: it names the one that holds the "
        "weights.",
    ),
)


def other_errors(text: str) -> list[str]:
    """A sentence for each known error of loading in a log."""
    found = []
    for pattern, words in _KNOWN:
        told = re.search(pattern, text, re.MULTILINE)
        if told:
            found.append(f"{told[0].strip()[:80]}: {words}")
    return found
