"""Exercise checks of lesson 02: the load that refuses, the backbone, the unlabelled runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .verdicts import NotYet, judge, listed, waited

if TYPE_CHECKING:
    from ..run import Run

__all__ = [
    "FAULTS",
    "check_backbone",
    "check_diagnosis",
    "check_stated",
    "tell_loaded",
    "unlabelled_runs",
]

FAULTS = (
    "healthy",
    "left in eval mode",
    "buffers missing",
    "partly loaded",
    "nothing loaded",
    "rank 0 only",
)
_RANKS = 2
_STEPS = 15  # of each unlabelled run: enough to see how fast its loss falls
_RATE = 0.02  # of exercise 2
_NEW_HEAD = 1.5  # a first loss above this: the head has learnt nothing yet
_TRAINED = 1.2  # a mean loss below this, 20 steps on: the head stands on trained layers
_LOADED = "as in the file: "  # how a rank's line of tell_loaded() begins


def unlabelled_runs(path: str) -> dict[str, Run]:
    """Resumes from a checkpoint four times on two ranks, each time with a fault of its own.

    Args:
        path: A checkpoint of ``launch/train.py`` at the step 150.

    Returns:
        The finished runs ``"A"`` to ``"D"``.
    """
    from ..run import torchrun
    from .sources import launch_file

    orders = Path(__file__).with_name("cases_02.py")
    resume = ("--momentum", 0, "--lr", 0.05, "--seed", 1, "--resume", path)
    rest = (*resume, "--steps", 150 + _STEPS, "--distance-every", 5)
    runs = {}
    for name in "ABCD":
        order = f"{orders}:case_{name.lower()}"
        run = torchrun(
            launch_file("train.py"), *rest, "--order", order, nproc_per_node=_RANKS, live=False
        )
        runs[name] = run.wait()
    return runs


def check_stated(load_stated: Callable[..., object]) -> None:
    """Exercise 1: what is left over is what was stated, or the load is refused.

    Args:
        load_stated: The learner's function of a model, a state dict, and the names that may be
            ``missing`` and ``unexpected``.
    """
    judge(_stated, load_stated)


def tell_loaded(model: Any, path: str) -> Any:
    """Prints, in a rank, which of a backbone's tensors its model holds as they are in the file.

    Args:
        model: The model, wrapped or not.
        path: A checkpoint whose names begin with ``backbone.``.

    Returns:
        The model.
    """
    import torch

    if isinstance(model, torch.nn.Module):
        weights = torch.load(path, map_location="cpu")["model"]
        state = getattr(model, "module", model).state_dict()
        names = [(name, name.removeprefix("backbone.")) for name in weights]
        same = [own for name, own in names if torch.equal(state[own].cpu(), weights[name])]
        print(_LOADED + " ".join(same), "of", " ".join(own for _, own in names), flush=True)
    return model


def check_backbone(run: Run) -> None:
    """Exercise 2: both ranks train a new head on the layers of the backbone.

    Args:
        run: The learner's run of 30 steps, whose order ended with :func:`tell_loaded`.
    """
    judge(_backbone, run)


def check_diagnosis(diagnosis: Mapping[str, object]) -> None:
    """Exercise 3: each unlabelled run has the name of its fault.

    Args:
        diagnosis: One of :data:`FAULTS` by the name of the run.
    """
    judge(_diagnosis, diagnosis)


def _stated(load_stated: Callable[..., object]) -> str:
    import torch

    def net() -> Any:
        layers = {"body": torch.nn.Linear(3, 4), "head": torch.nn.Linear(4, 2)}
        return torch.nn.ModuleDict(layers)

    whole = {name: torch.randn_like(tensor) for name, tensor in net().state_dict().items()}
    headless = {name: tensor for name, tensor in whole.items() if "head" not in name}
    bodyless = {name: tensor for name, tensor in whole.items() if "body" not in name}
    more = {**whole, "extra": torch.zeros(1)}
    prefixed = {f"module.{name}": tensor for name, tensor in whole.items()}
    head = ["head.weight", "head.bias"]
    fine: list[tuple[str, dict[str, Any], dict[str, list[str]]]] = [
        ("a file in which every name fits", whole, {}),
        ("a file without the head, stated", headless, {"missing": head}),
        ("the same, stated in another order", headless, {"missing": head[::-1]}),
        ("a name too many in the file, stated", more, {"unexpected": ["extra"]}),
    ]
    wrong: list[tuple[str, dict[str, Any], dict[str, list[str]]]] = [
        ("a file in which every name has a prefix", prefixed, {}),
        ("a file without the head, and nothing stated", headless, {}),
        ("a name too many in the file, and nothing stated", more, {}),
        ("a file without the head, and half of it stated", headless, {"missing": head[:1]}),
        ("a file with the head, stated as missing", whole, {"missing": head}),
        ("a file without the body, and the head stated", bodyless, {"missing": head}),
        ("a name too many in the file, and another one stated", more, {"unexpected": ["other"]}),
        (
            "a file in which every name fits, and one too many stated",
            whole,
            {"unexpected": ["extra"]},
        ),
    ]
    for words, weights, stated in fine:
        model = net()
        _load(load_stated, model, weights, stated, words)
        state = model.state_dict()
        fits = [name for name in state if name in weights]
        stale = [name for name in fits if not torch.equal(state[name], weights[name])]
        if stale:
            raise NotYet(f"{words}: {stale[0]} was not loaded.")
    for words, weights, stated in wrong:
        try:
            load_stated(net(), dict(weights), **stated)
        except Exception:
            continue
        raise NotYet(f"{words}: it said nothing.")
    return f"it loads {len(fine)} that are as stated, and refuses {len(wrong)} that are not."


def _load(
    load_stated: Callable[..., object],
    model: object,
    weights: dict[str, Any],
    stated: dict[str, list[str]],
    words: str,
) -> None:
    try:
        load_stated(model, dict(weights), **stated)
    except Exception as error:
        raise NotYet(f"{words}: it was refused ({type(error).__name__}).") from None


def _backbone(run: Run) -> str:
    waited(run)
    curves = run.curve("loss")
    if len(curves) < 2:
        raise NotYet("one rank alone says nothing about the others: start 2.")
    if any(len(steps) != 30 for steps, _ in curves.values()):
        raise NotYet("the run has another length than 30 steps: nothing to hold it against.")
    if any(abs(rates - _RATE).max() > 1e-6 for _, rates in run.curve("lr").values()):
        raise NotYet(f"mend the load, and leave the learning rate at {_RATE}.")
    firsts = {rank: values[0] for rank, (_, values) in curves.items()}
    if min(firsts.values()) < _NEW_HEAD:
        raise NotYet("the head has been loaded too; it should be new.")
    late = run.mean("loss")[1][20:].mean()
    apart = [rank for rank, (_, far) in sorted(run.curve("distance").items()) if far.any()]
    if apart:
        raise NotYet(f"{listed(apart)} did not get the layers that rank 0 has.")
    first = f"the first loss is ≈ {run.mean('loss')[1][0]:.2f}"
    for rank, (loaded, tensors) in _told_loaded(run).items():
        if not loaded:
            raise NotYet(
                f"{first}, as it should be with a new head. But 20 steps later it is still "
                f"≈ {late:.2f}: the head stands on random layers."
            )
        missing = [name for name in tensors if name not in loaded]
        if missing:
            raise NotYet(
                f"rank {rank} has {len(loaded)} of the backbone's {len(tensors)} tensors as they "
                f"are in the file: {missing[0]} is not among them."
            )
    if late > _TRAINED:
        raise NotYet(f"all is loaded, yet 20 steps later the loss is ≈ {late:.2f}.")
    return (
        f"{first} all the same, since the head is new, and 20 steps later it is ≈ {late:.2f}: the "
        "head stands on trained layers. Every rank has every tensor of the backbone."
    )


def _told_loaded(run: Run) -> dict[int, tuple[list[str], list[str]]]:
    """Returns, by rank, the names as tell_loaded() printed them: those loaded, and all."""
    told = {}
    for rank in run.ranks:
        lines = [line for line in run.stdout(rank).splitlines() if line.startswith(_LOADED)]
        if not lines:
            raise NotYet(f"rank {rank} does not tell what it loaded: leave tell_loaded in the job.")
        loaded, _, tensors = lines[-1].removeprefix(_LOADED).partition("of ")
        told[rank] = loaded.split(), tensors.split()
    return told


def _diagnosis(diagnosis: Mapping[str, object]) -> str:
    from .cases_02 import TRUTH

    for name, truth in TRUTH.items():
        answer = diagnosis.get(name)
        if answer is None:
            raise NotYet(f"run {name} has no name yet.")
        if answer not in FAULTS:
            raise NotYet(f"run {name}: {answer!r} is not one of {', '.join(FAULTS)}.")
        if answer != truth:
            raise NotYet(f"run {name} was not {answer!r}: {_WHY_NOT[truth]}")
    return (
        "A by a loss above an even guess, B by ranks that disagree, C by an accuracy that its low "
        "loss does not explain, D by an even guess on every rank. (C's accuracy even falls: each "
        "batch renews a tenth of the running statistics, and means that nearly fit, beside "
        "variances still far too large, are worse than fresh ones of both.)"
    )


_WHY_NOT = {
    "partly loaded": "which mixture of layers does worse than an even guess?",
    "rank 0 only": "do both of its ranks agree?",
    "buffers missing": "its loss is low from the first step; and its accuracy?",
    "nothing loaded": "how does its first loss compare with an even guess, on both ranks?",
}
