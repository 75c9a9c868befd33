"""Tries a learner's strip(weights, model) on files that fit and on files that do not."""

from __future__ import annotations

import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .nets_05 import nets_of_the_exercises, wrapped
from .verdicts import NotYet, result_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["judged_strip"]

Weights = dict[str, Any]

_COMPUTING = 2.0  # seconds of it, not of waiting: a strip() that needs more never ends


def judged_strip(strip: Callable[[Weights, nn.Module], Weights]) -> str:
    """Returns why a strip() is right; raises NotYet with the first file that it treats wrongly."""
    nets = nets_of_the_exercises()
    levels = {0: "saved without the wrapper", 1: "saved from the wrapper", 2: "wrapped twice"}
    children = {
        "plain": "a plain net",
        "base": "a net with a child base_module",
        "child": "a net with a child module",
        "inner": "a net that is nothing but a child module",
    }
    for times, saved in levels.items():
        for kind, net in children.items():
            _one_file(strip, nets[kind], times, f"{net}, {saved}")
    misfits = _misfits(nets)
    for words, model, weights in misfits:
        before = deepcopy(weights)
        try:
            with _ending(words):
                given = strip(weights, model)
        except KeyError:
            _untouched(weights, before, words)
            continue
        except NotYet:
            raise
        except (Exception, SystemExit) as error:
            raise NotYet(
                f"{words}: it raises {type(error).__name__}, where a KeyError is asked for."
            ) from None
        raise NotYet(f"{words}: it returns {_names(given)} and refuses nothing.")
    fit = len(levels) * len(children)
    refused = len({words.partition(",")[0] for words, *_ in misfits})  # the kinds of them
    return f"it gives {fit} files the names of their models, and refuses {refused} that do not fit."


def _one_file(
    strip: Callable[[Weights, nn.Module], Weights], net: type[nn.Module], times: int, words: str
) -> None:
    import torch

    saved, model = net(), net()
    file: Weights = deepcopy(wrapped(saved, times).state_dict())
    before = deepcopy(file)
    with _ending(words):
        try:
            given = result_of(strip, file, model)
        except NotYet as raised:
            raise NotYet(f"{words}: {raised}") from None
    _untouched(file, before, words)
    if not isinstance(given, Mapping):
        raise NotYet(f"{words}: it returns {type(given).__name__}, not the weights.")
    if set(given) != set(model.state_dict()):
        raise NotYet(f"{words}: the names it returns are {_names(given)}.")
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise NotYet(f"{words}: its {name} is a {type(value).__name__}, not a tensor.")
    try:
        model.load_state_dict(given)
    except RuntimeError as error:
        told = " ".join(str(error).split())
        raise NotYet(f"{words}: what it returns cannot be loaded: {told[:150]} …") from None
    pairs = zip(saved.state_dict().values(), model.state_dict().values(), strict=True)
    if not all(torch.equal(mine, theirs) for mine, theirs in pairs):
        raise NotYet(f"{words}: a tensor was loaded under another one's name.")
    counter = next((name for name in given if name.endswith("num_batches_tracked")), None)
    if counter is not None:
        incomplete = OrderedDict((name, given[name]) for name in given if name != counter)
        incomplete._metadata = getattr(given, "_metadata", None)  # type: ignore[attr-defined]
        if not model.load_state_dict(incomplete, strict=False).missing_keys:
            raise NotYet(f"{words}: the versions of its layers are lost.")


class _Endless(BaseException):
    """Not an Exception: a learner's own except must not end here."""


@contextmanager
def _ending(words: str) -> Iterator[None]:
    """What computes for ever becomes a NotYet; a signal can end it in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise _Endless

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, _COMPUTING)
    try:
        yield
    except _Endless:
        raise NotYet(f"{words}: it never ends; it was stopped.") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _untouched(weights: Weights, before: Weights, words: str) -> None:
    """The caller's dict is as it was: its names, its versions, its tensors."""
    import torch

    if list(weights) != list(before):
        raise NotYet(f"{words}: the caller's own dict has other names now.")
    if getattr(weights, "_metadata", None) != getattr(before, "_metadata", None):
        raise NotYet(f"{words}: the versions in the caller's own dict (_metadata) are others now.")
    if not all(torch.equal(weights[name], value) for name, value in before.items()):
        raise NotYet(f"{words}: the caller's own tensors have other values now.")


def _misfits(nets: dict[str, type[nn.Module]]) -> list[tuple[str, nn.Module, Weights]]:
    """Returns files that are to be refused; what a comma parts from the rest is of one kind."""
    from torch import nn

    short = wrapped(nets["plain"]()).state_dict()
    del short["module.conv1.bias"]
    larger = nets["plain"]()
    larger.head = nn.Linear(3, 1)
    mixed = wrapped(nets["plain"]()).state_dict()
    mixed["conv1.bias"] = mixed.pop("module.conv1.bias")
    beside = wrapped(nets["plain"]()).state_dict()
    beside["head.bias"] = larger.head.bias.detach()
    whole = "with all that the model has, and more"
    return [
        ("a file that lacks a tensor", nets["plain"](), short),
        ("a file of another net", nets["base"](), wrapped(nets["child"]()).state_dict()),
        (f"a file of another net, {whole}", nets["plain"](), wrapped(larger).state_dict()),
        (
            f"a file of another net, {whole}, saved without the wrapper",
            nets["plain"](),
            larger.state_dict(),
        ),
        ("a file with the prefix on some names only", nets["plain"](), mixed),
        (f"a file with the prefix on some names only, {whole}", nets["plain"](), beside),
        ("an empty file", nets["plain"](), nn.Module().state_dict()),
    ]


def _names(weights: object) -> str:
    names = list(map(str, weights)) if isinstance(weights, Mapping) else [type(weights).__name__]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
