"""Exercise checks of lesson 05: errors and their cures, a prefix removed, files with one writer."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import chdir
from typing import TYPE_CHECKING, Any

from .nets_05 import nets_of_the_exercises, wrapped
from .strip_05 import judged_strip
from .verdicts import NotYet, judge, waited

if TYPE_CHECKING:
    from torch import nn

    from ..run import Run

__all__ = ["check_cures", "check_files", "check_strip"]

Weights = dict[str, Any]

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
    judge(judged_strip, strip)


def check_files(run: Run, folder: str) -> None:
    """Exercise 3: each file is whole and rank 0's, also where each rank has its own machine.

    The run's script runs again, twice, in a folder of its own: what lies in the notebook's may be
    an earlier run's, or another notebook's.

    Args:
        run: The run of the script.
        folder: Where the script writes ``step-0.pt`` to ``step-9.pt``.
    """
    judge(_files, run, folder)


# --- exercise 1


def _cures(answers: Mapping[str, object]) -> str:
    nets = nets_of_the_exercises()
    # The names of the exercise's table, which a load's error repeats.
    plain = type("DigitNet", (nets["plain"],), {})()
    base = type("Detector", (nets["base"],), {})()
    ddp = wrapped(nets["plain"](), wrapper="DistributedDataParallel")
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
