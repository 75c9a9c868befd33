"""Exercise checks of lesson 05: errors and their cures, a prefix removed, files with one writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .verdicts import NotYet, judge, result_of, waited

if TYPE_CHECKING:
    from torch import nn

    from ..run import Run

__all__ = ["check_cures", "check_files", "check_strip"]

Weights = dict[str, Any]

_FILES = 10  # that the script of exercise 3 writes


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
    """Exercise 3: each file is whole and rank 0's.

    The files are removed when they have been looked at: the next run cannot pass with them.

    Args:
        run: The run that wrote them.
        folder: Where they are: ``step-0.pt`` to ``step-9.pt``.
    """
    judge(_files, run, Path(folder))


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


def _wrapped(model: nn.Module, times: int = 1) -> nn.Module:
    from torch import nn

    for _ in range(times):
        outer = nn.Module()
        outer.module = model
        model = outer
    return model


# --- exercise 1


def _cures(answers: Mapping[str, object]) -> str:
    nets = _nets()
    plain, base = nets["plain"](), nets["base"]()
    ddp, inside = _wrapped(nets["plain"]()), plain.state_dict()
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
    for letter, (model, weights, file) in cases.items():
        answer = answers.get(letter) if isinstance(answers, Mapping) else None
        if answer is None:
            raise NotYet(f"which cure is for {letter}?")
        if answer not in cures:
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
    for words, model, weights in _misfits(nets):
        try:
            given = strip(weights, model)
        except KeyError:
            continue
        except Exception as error:
            raise NotYet(
                f"{words}: it raises {type(error).__name__}, where a KeyError is asked for."
            ) from None
        raise NotYet(f"{words}: it returns {_names(given)} and refuses nothing.")
    return "it gives 12 files the names of their models, and refuses 3 that do not fit."


def _one_file(
    strip: Callable[[Weights, nn.Module], Weights], net: type[nn.Module], times: int, words: str
) -> None:
    import torch

    saved, model = net(), net()
    file: Weights = deepcopy(_wrapped(saved, times).state_dict())
    names = list(file)
    try:
        given = result_of(strip, file, model)
    except NotYet as raised:
        raise NotYet(f"{words}: {raised}") from None
    if list(file) != names:
        raise NotYet(f"{words}: the caller's own dict has other names now.")
    if not isinstance(given, Mapping):
        raise NotYet(f"{words}: it returns {type(given).__name__}, not the weights.")
    if set(given) != set(model.state_dict()):
        raise NotYet(f"{words}: the names it returns are {_names(given)}.")
    incomplete = deepcopy(given)
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
        del incomplete[counter]  # type: ignore[attr-defined]
        if not model.load_state_dict(incomplete, strict=False).missing_keys:
            raise NotYet(f"{words}: the versions of its layers are lost.")


def _misfits(nets: dict[str, type[nn.Module]]) -> list[tuple[str, nn.Module, Weights]]:
    short = _wrapped(nets["plain"]()).state_dict()
    del short["module.conv1.bias"]
    mixed = _wrapped(nets["plain"]()).state_dict()
    mixed["conv1.bias"] = mixed.pop("module.conv1.bias")
    return [
        ("a file that lacks a tensor", nets["plain"](), short),
        ("a file of another net", nets["base"](), _wrapped(nets["child"]()).state_dict()),
        ("a file with the prefix on some names only", nets["plain"](), mixed),
    ]


def _names(weights: object) -> str:
    names = list(map(str, weights)) if isinstance(weights, Mapping) else [type(weights).__name__]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


# --- exercise 3


def _files(run: Run, folder: Path) -> str:
    waited(run)
    found = sorted(folder.glob("step-*.pt"))
    kinds = [_kind(path) for path in found]
    if len(found) < _FILES:
        raise NotYet(f"the run left {len(found)} of its {_FILES} files: run the script again.")
    if any(kind != "rank 0's" for kind in kinds):
        raise NotYet("of these files some hold what another rank saw, or cannot be read.")
    return f"all {_FILES} files are whole, and each holds what rank 0 saw."


def _kind(path: Path) -> str:
    import torch

    try:
        state = torch.load(path, map_location="cpu")
        whole = bool((state["seen"] == state["rank"]).all())
        return f"rank {state['rank']}'s" if whole and len(state["seen"]) > 0 else "mixed"
    except Exception:  # a torn file fails in as many ways as there are bytes to lose
        return "torn"
    finally:
        path.unlink(missing_ok=True)
