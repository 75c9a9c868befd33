"""Exercise checks of lesson 06: a file nobody described, a resume that loses parts, plain types."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .verdicts import NotYet, judge, result_of, waited

if TYPE_CHECKING:
    from torch import nn

    from ..run import Run

__all__ = ["check_mystery", "check_plain", "check_restore", "make_mystery"]

_TRAINED, _AVERAGE = "classifier", "classifier_average"


def make_mystery(path: str | os.PathLike[str], net: Callable[[], nn.Module]) -> None:
    """Writes the file of exercise 1, with random weights.

    Args:
        path: Where to write it.
        net: Makes a network with weights of its own: the trained one, and one as its average.
    """
    _write_mystery(path, net)


def check_mystery(
    load_mystery: Callable[[str, nn.Module], object], net: Callable[[], nn.Module]
) -> None:
    """Exercise 1: the network has all weights of the trained one in such a file, or it raises.

    Args:
        load_mystery: The learner's function of the file's path and a fresh network to fill.
        net: Makes a network.
    """
    judge(_mystery, load_mystery, net)


def check_restore(run: Run, whole: Run) -> None:
    """Exercise 2: the resumed run is the uninterrupted one's second half, to the last bit.

    Args:
        run: The learner's resumed run, which logged ``loss``, ``lr`` and ``epoch``.
        whole: The uninterrupted run.
    """
    judge(_restore, run, whole)


def check_plain(
    plain: Callable[[dict[str, Any]], Mapping[str, Any]], checkpoint: dict[str, Any]
) -> None:
    """Exercise 3: torch.load takes the file as it is, and nothing is lost from it.

    Args:
        plain: The learner's function, from the checkpoint to what is to be saved.
        checkpoint: The checkpoint, with an ``argparse.Namespace`` in it.
    """
    judge(_plain, plain, checkpoint)


def _write_mystery(
    path: str | os.PathLike[str], net: Callable[[], nn.Module], without: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes the file and returns the trained weights and their average.

    Neither network in the file has the tensor named `without`.
    """
    import torch

    trained, average = (
        {name: value for name, value in net().state_dict().items() if name != without}
        for _ in (_TRAINED, _AVERAGE)
    )
    checkpoint = {
        "when": "2024-05-17",
        "loop": {"epoch": 12, "best": 0.97},
        "nets": {
            _AVERAGE: {f"model.{name}": value for name, value in average.items()},
            _TRAINED: {f"module._orig_mod.model.{name}": value for name, value in trained.items()},
        },
    }
    torch.save(checkpoint, path)
    return trained, average


def _mystery(load_mystery: Callable[[str, nn.Module], object], net: Callable[[], nn.Module]) -> str:
    import torch

    model = net()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mystery.pt")
        trained, average = _write_mystery(path, net)
        fresh = {name: value.clone() for name, value in model.state_dict().items()}
        result_of(load_mystery, path, model)
    now = model.state_dict()
    # What is equal before the load tells nothing: a fresh bias is zero in every network.
    telling = [name for name in now if not torch.equal(fresh[name], trained[name])]
    loaded = [name for name in telling if torch.equal(now[name], trained[name])]
    other = [name for name in telling if torch.equal(now[name], average[name])]
    if loaded and len(loaded) == len(telling):
        for name, value in trained.items():
            if not torch.equal(now[name], value):
                raise NotYet(f"{name} is not the trained network's.")
        name = next(iter(dict(model.named_parameters())))
        _refuses(load_mystery, net, name)
        return f"all {len(now)} tensors are the trained network's, and without {name} it raises."
    if other:
        raise NotYet("these are weights of the average, not of the trained network.")
    if not loaded:
        raise NotYet("nothing was loaded: the network still has its initial weights.")
    missing = next(name for name in telling if name not in loaded)
    raise NotYet(f"only a part was loaded: {missing} is not the trained network's.")


def _refuses(
    load_mystery: Callable[[str, nn.Module], object], net: Callable[[], nn.Module], without: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mystery.pt")
        _write_mystery(path, net, without)
        try:
            load_mystery(path, net())
        except Exception:
            return
    raise NotYet(f"of a file without {without} it loads the rest, and nothing says so.")


def _restore(run: Run, whole: Run) -> str:
    from ..curves.difference import first_difference

    waited(run)
    names = {"epoch": "epoch", "lr": "learning rate", "loss": "loss"}
    missing = [name for name in names if name not in run.metrics]
    if missing:
        raise NotYet(f"the run logged no {names[missing[0]]}: it took no step.")
    if run.directory == whole.directory:
        raise NotYet("this is the uninterrupted run itself; resume one.")
    last = int(whole.curve("loss")[0][0][-1])
    steps = run.curve("loss")[0][0]
    told = []
    for name, words in names.items():
        difference = first_difference(whole, run, name)
        if difference is not None:
            told.append(f"the {words} at step {difference[0]}")
    if told:
        *others, final = told
        which = f"{', '.join(others)} and {final}" if others else final
        raise NotYet(f"{which} differ{'' if others else 's'} from the uninterrupted run's.")
    if int(steps[0]) == 0:
        raise NotYet("this run started at step 0; resume it from the checkpoint.")
    if int(steps[-1]) != last:
        raise NotYet(f"it ends at step {int(steps[-1])}, the uninterrupted run at step {last}.")
    return (
        f"epoch, learning rate and loss are the uninterrupted run's from step {int(steps[0])} to "
        f"step {last}, to the last bit."
    )


def _plain(plain: Callable[[dict[str, Any]], Mapping[str, Any]], checkpoint: dict[str, Any]) -> str:
    import pickle

    import torch

    args = checkpoint["args"]
    before = dict(vars(args))
    written = result_of(plain, dict(checkpoint))
    if not isinstance(written, Mapping):
        raise NotYet(f"it returns {type(written).__name__}, not a checkpoint.")
    if checkpoint["args"] is not args or vars(args) != before:
        args.__dict__.clear()
        args.__dict__.update(before)
        raise NotYet("it changed the args themselves, and the training still needs them.")
    file = io.BytesIO()
    torch.save(written, file)
    try:
        read = torch.load(io.BytesIO(file.getvalue()), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        from torch.serialization import get_unsafe_globals_in_checkpoint

        names = sorted(get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())))
        which = ", ".join(names) or "it"
        raise NotYet(f"torch.load refuses {which} in the file.") from None
    lost = [name for name in checkpoint if name not in read]
    if lost:
        raise NotYet(f"the file lacks {lost[0]!r}.")
    for name in checkpoint:
        if name != "args" and not _same(read[name], checkpoint[name]):
            raise NotYet(f"{name!r} in the file is not the checkpoint's.")
    if not isinstance(read["args"], Mapping):
        raise NotYet(f"args came back as {type(read['args']).__name__}: who can read it by name?")
    for name, value in before.items():
        if name not in read["args"]:
            raise NotYet(f"args lost its {name!r}.")
        if not _tells(read["args"][name], value):
            raise NotYet(f"args has {read['args'][name]!r} for {name}, and it was {value!r}.")
    return f"torch.load takes it, with all {len(before)} args and every other part."


def _same(one: Any, other: Any) -> bool:
    """Whether two parts of a checkpoint hold the same, tensors to the last bit."""
    import torch

    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and torch.equal(one, other)
    if isinstance(other, Mapping):
        if not isinstance(one, Mapping) or one.keys() != other.keys():
            return False
        return all(_same(one[name], value) for name, value in other.items())
    if isinstance(other, list | tuple):
        if not isinstance(one, list | tuple) or len(one) != len(other):
            return False
        return all(map(_same, one, other))
    return bool(one == other)


def _tells(read: object, value: object) -> bool:
    """Whether what was read says the same in plain types: a path as text, a tuple as a list."""
    if isinstance(value, Path):
        return isinstance(read, str) and Path(read) == value
    if isinstance(value, tuple) and isinstance(read, list):
        read = tuple(read)
    return bool(read == value)
