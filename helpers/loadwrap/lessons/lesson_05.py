"""Exercise checks of lesson 05: errors and their cures, a prefix removed, files with one writer."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .verdicts import NotYet, judge, result_of, waited

if TYPE_CHECKING:
    from torch import nn

    from ..run import Run

__all__ = ["check_cures", "check_files", "check_strip"]

Weights = dict[str, Any]

_COMPUTING = 2.0  # seconds of it, not of waiting: a strip() that needs more never ends
_FILES, _RANKS = 10, 4  # of the script of exercise 3
_SILENT = 120.0  # seconds: what the check starts takes one


def check_cures(answers: Mapping[str, object]) -> None:
    """Exercise 1: each error's cure, applied to a load that raises it, makes the load succeed.

    Args:
        answers: The learner's choice for each of the errors A to D.
    """
    judge(_cures, answers)


def check_strip(strip: Callable[[Weights, nn.Module], Weights]) -> None:
    """Exercise 2: the model's own names for whatever fits it, an error for what does not.

    Args:
        strip: The learner's function of a state dict and the model that is to load it.
    """
    judge(_strip, strip)


def check_files(run: Run, folder: str) -> None:
    """Exercise 3: each file is whole and rank 0's, also where each rank has its own machine.

    The run's script runs again, twice, in a folder of its own: what lies in the notebook's may be
    an earlier run's, or another notebook's.

    Args:
        run: The run of the script.
        folder: Where the script writes ``step-0.pt`` to ``step-9.pt``.
    """
    judge(_files, run, folder)


def _nets() -> dict[str, type[nn.Module]]:
    """Returns the networks of the exercises; torch is imported when a check runs."""
    from torch import nn

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)

    class Base(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_module = nn.Linear(3, 3)
            self.head = nn.Linear(3, 1)

    class Child(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)

    class Inner(nn.Module):  # every name of it starts with what a wrapper adds
        def __init__(self) -> None:
            super().__init__()
            self.module = Plain()

    return {"plain": Plain, "base": Base, "child": Child, "inner": Inner}


def _wrapped(model: nn.Module, times: int = 1, wrapper: str = "Module") -> nn.Module:
    from torch import nn

    for _ in range(times):
        outer: nn.Module = type(wrapper, (nn.Module,), {})()
        outer.module = model
        model = outer
    return model


# --- exercise 1


def _cures(answers: Mapping[str, object]) -> str:
    nets = _nets()
    # The names of the exercise's table, which a load's error repeats.
    plain = type("DigitNet", (nets["plain"],), {})()
    base = type("Detector", (nets["base"],), {})()
    ddp = _wrapped(nets["plain"](), wrapper="DistributedDataParallel")
    inside = plain.state_dict()
    checkpoint = {"step": 100, "model": inside, "optimizer": {}, "scheduler": {}}
    ruined = {name.replace("module.", ""): value for name, value in base.state_dict().items()}
    cases: dict[str, tuple[nn.Module, Weights, Weights]] = {  # who loads, what, what the file had
        "A": (ddp, inside, inside),
        "B": (plain, checkpoint, checkpoint),
        "C": (base, ruined, base.state_dict()),
        "D": (plain, ddp.state_dict(), ddp.state_dict()),
    }
    cures: dict[object, Callable[[nn.Module, Weights, Weights], tuple[nn.Module, Weights]]] = {
        "remove one prefix": lambda model, weights, file: (model, _without_one(weights)),
        "load into ddp.module": lambda model, weights, file: (_inside(model), weights),
        "take the entry 'model'": lambda model, weights, file: (model, _entry(weights)),
        "read the file again and rename nothing": lambda model, weights, file: (model, file),
    }
    if not isinstance(answers, Mapping):
        raise NotYet(f"answers is a {type(answers).__name__}: make it a dict, with A, B, C and D.")
    for letter, (model, weights, file) in cases.items():
        answer = answers.get(letter)
        if answer is None:
            raise NotYet(f"which cure is for {letter}?")
        if not isinstance(answer, str) or answer not in cures:
            raise NotYet(f"{letter}: {answer!r} is none of the four cures.")
        try:
            target, cured = cures[answer](model, weights, file)
            target.load_state_dict(cured)
        except (RuntimeError, KeyError, AttributeError) as error:
            told = " ".join(str(error).split())
            raise NotYet(f"{letter}: after {answer!r} the load fails with {told[:150]} …") from None
    return "all four load strictly: the class says who loads, the unexpected names say what."


def _without_one(weights: Weights) -> Weights:
    return {name.removeprefix("module."): value for name, value in weights.items()}


def _inside(model: nn.Module) -> nn.Module:
    if not hasattr(model, "module"):
        raise AttributeError(f"AttributeError: {type(model).__name__} has no attribute 'module'")
    return model.module  # type: ignore[return-value]


def _entry(weights: Weights) -> Weights:
    if "model" not in weights:
        raise KeyError("KeyError: 'model'")
    return weights["model"]


# --- exercise 2


def _strip(strip: Callable[[Weights, nn.Module], Weights]) -> str:
    nets = _nets()
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
    file: Weights = deepcopy(_wrapped(saved, times).state_dict())
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

    short = _wrapped(nets["plain"]()).state_dict()
    del short["module.conv1.bias"]
    larger = nets["plain"]()
    larger.head = nn.Linear(3, 1)
    mixed = _wrapped(nets["plain"]()).state_dict()
    mixed["conv1.bias"] = mixed.pop("module.conv1.bias")
    beside = _wrapped(nets["plain"]()).state_dict()
    beside["head.bias"] = larger.head.bias.detach()
    whole = "with all that the model has, and more"
    return [
        ("a file that lacks a tensor", nets["plain"](), short),
        ("a file of another net", nets["base"](), _wrapped(nets["child"]()).state_dict()),
        (f"a file of another net, {whole}", nets["plain"](), _wrapped(larger).state_dict()),
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


# --- exercise 3


def _files(run: Run, folder: str) -> str:
    waited(run)
    words = shlex.split(run.command)
    ranks = words[words.index("--nproc-per-node") + 1]
    if ranks != str(_RANKS):
        raise NotYet(f"--nproc-per-node is {ranks} here: run the script on {_RANKS} ranks.")
    told = _told(words, folder, own_machine=False)
    if told:
        raise NotYet(told)
    told = _told(words, folder, own_machine=True)
    if told:
        raise NotYet(
            f"here all is well; run again with LOCAL_RANK=0 on all {_RANKS} ranks, as on "
            f"{_RANKS} machines of one rank each, {told}"
        )
    return (
        f"all {_FILES} files are whole, and each holds what rank 0 saw; "
        "as well when each rank is the first of its own machine."
    )


def _told(words: list[str], folder: str, *, own_machine: bool) -> str:
    """Runs a command's script again; returns what is wrong with the files it writes, or nothing."""
    from ..run import torchrun

    script = os.path.abspath(next(word for word in reversed(words) if word.endswith(".py")))
    env = dict(variable.split("=", 1) for variable in words[: words.index("torchrun")])
    if "PYTHONPATH" in env:  # from another folder "." would be another one
        paths = env["PYTHONPATH"].split(os.pathsep)
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, chdir(place):
        os.makedirs(folder, exist_ok=True)
        waited(
            torchrun(
                script,
                nproc_per_node=_RANKS,
                virtual_local_rank=own_machine,
                env=env,
                live=False,
                stall_timeout=_SILENT,
            )
        )
        paths = [os.path.join(folder, f"step-{step}.pt") for step in range(_FILES)]
        kinds = [_kind(path) for path in paths if os.path.exists(path)]
    if len(kinds) < _FILES:
        return f"the script wrote {len(kinds)} of its {_FILES} files."
    if all(kind == "rank 0's" for kind in kinds):
        return ""
    named = ("rank 0's", "another rank's", "mixed", "unreadable")
    counts = Counter(kind if kind in named else "another rank's" for kind in kinds)
    return f"the {_FILES} files: " + ", ".join(f"≈ {counts[kind]} {kind}" for kind in named) + "."


def _kind(path: str) -> str:
    import torch

    try:
        state = torch.load(path, map_location="cpu")
        whole = bool((state["seen"] == state["rank"]).all())
        return f"rank {state['rank']}'s" if whole and len(state["seen"]) > 0 else "mixed"
    except Exception:  # a torn file fails in as many ways as there are bytes to lose
        return "unreadable"
