"""Ranks tell what they hold, by fingerprints; the notebook reads what they told."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from ..run import Run

__all__ = ["tell", "tell_forwards", "told", "versions"]

Told = dict[str, dict[str, dict[int, tuple[int, ...]]]]


def tell(moment: str, model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """Prints, in a rank, the fingerprint of every tensor that the rank holds: a line for each part.

    Args:
        moment: The name of the moment, in one word.
        model: Its parameters and its buffers are told.
        optimizer: The tensors of its state are told as well, if it is given.

    Raises:
        ValueError: If the moment is not one word.

    Example:
        >>> from torch import nn
        >>> tell("built", nn.BatchNorm1d(1, affine=False, track_running_stats=False))
        built parameters
        built buffers
    """
    from ..checkpoints import fingerprint

    if len(moment.split()) != 1:
        raise ValueError(f"tell() needs a moment in one word, not {moment!r}")
    parts: dict[str, list[Any]] = {
        "parameters": list(model.parameters()),
        "buffers": list(model.buffers()),
    }
    if optimizer is not None:
        states = optimizer.state_dict()["state"].values()
        parts["optimizer"] = [
            tensor for state in states for tensor in state.values() if hasattr(tensor, "dtype")
        ]
    for part, tensors in parts.items():
        print(moment, part, *map(fingerprint, tensors))


def tell_forwards(model: nn.Module, count: int = 2) -> None:
    """Lets a model tell what it holds as its next training forwards begin.

    Under DDP the hook of the inner model runs after DDP has prepared the forward, and before the
    network computes. The moments are ``forward-1``, ``forward-2``, and so on.

    Args:
        model: The inner model, not the wrapper.
        count: How many forwards to tell.

    Example:
        >>> from torch import nn
        >>> model = nn.Identity()
        >>> tell_forwards(model, count=1)
        >>> answers = [model(1), model(2)]
        forward-1 parameters
        forward-1 buffers
    """
    numbers = itertools.count(1)

    def hook(module: nn.Module, _: Any) -> None:
        if module.training and (number := next(numbers)) <= count:
            tell(f"forward-{number}", module)

    model.register_forward_pre_hook(hook)


def told(run: Run) -> Told:
    """Reads what the ranks of a run told: ``{part: {moment: {rank: fingerprints}}}``.

    Args:
        run: A run whose ranks called :func:`tell`; what else they printed is passed over.

    Returns:
        The fingerprints of the part's tensors, as a tuple: two ranks that hold the same have the
        same tuple.
    """
    found: Told = {}
    for rank in run.ranks:
        for line in run.stdout(rank).splitlines():
            words = line.split()
            if len(words) > 2 and all(word.isdecimal() for word in words[2:]):
                prints = tuple(map(int, words[2:]))
                found.setdefault(words[1], {}).setdefault(words[0], {})[rank] = prints
    return found


def versions(moments: dict[str, dict[int, tuple[int, ...]]]) -> dict[str, int]:
    """Counts how many different versions the ranks hold at each moment.

    Args:
        moments: One part of what :func:`told` returns.

    Example:
        >>> versions({"built": {0: (7,), 1: (9,)}, "wrapped": {0: (7,), 1: (7,)}})
        {'built': 2, 'wrapped': 1}
    """
    return {moment: len(set(ranks.values())) for moment, ranks in moments.items()}
