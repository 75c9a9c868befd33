"""The orders in which a rank can load a checkpoint and wrap its model. Not all of them are right.

Each function gets this rank's own, freshly built objects and the path of a checkpoint written by
`train.py`, and returns the wrapped model. `train.py --order NAME` takes one of these,
`train.py --order PATH.py:NAME` one of your own.
"""

# mypy: allow-untyped-defs
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def wrap_then_load_on_rank0(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    if dist.get_rank() == 0:
        checkpoint = torch.load(path, map_location="cpu")
        ddp.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
    return ddp


def load_on_rank0_then_wrap(model, optimizer, scheduler, path):
    if dist.get_rank() == 0:
        checkpoint = torch.load(path, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
    return DistributedDataParallel(model)


def load_everywhere_then_wrap(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return DistributedDataParallel(model)


def wrap_then_load_everywhere(model, optimizer, scheduler, path):
    ddp = DistributedDataParallel(model)
    checkpoint = torch.load(path, map_location="cpu")
    ddp.module.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return ddp


ORDERS = {
    order.__name__: order
    for order in (
        wrap_then_load_on_rank0,
        load_on_rank0_then_wrap,
        load_everywhere_then_wrap,
        wrap_then_load_everywhere,
    )
}


def find_order(name: str) -> Callable[..., DistributedDataParallel]:
    """Return one of the orders above by name, or from PATH.py:NAME the function NAME of that file.

    Raises:
        ValueError: There is no such order, file or function; the message is one sentence.
    """
    path, _, function = name.rpartition(":")
    if not path and name in ORDERS:
        return ORDERS[name]
    if not Path(path).is_file():
        raise ValueError(f"no order {name!r}: choose {', '.join(ORDERS)} or PATH.py:NAME")
    spec = importlib.util.spec_from_file_location("learners_order", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file: an order of your own is PATH.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up there
    sys.path.append(str(Path(path).resolve().parent))  # the file may import its neighbours
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise ValueError(f"{path} has no function {function!r}")
    return getattr(module, function)


def step_of(path: Path | None) -> int:
    """Return the step at which `train.py` wrote this checkpoint: 0 if there is none.

    Raises:
        ValueError: It wrote no such checkpoint; the message is one sentence.
    """
    if path is None:
        return 0
    if not path.is_file():
        raise ValueError(f"--resume {path}: no such file")
    try:
        return int(torch.load(path, map_location="cpu")["step"])
    except Exception as error:  # torch.load has no one error for what is not a checkpoint
        why = type(error).__name__
        raise ValueError(f"--resume {path}: not a checkpoint of train.py ({why})") from error


def check_place(path: Path | None) -> None:
    """Look, before hours of training, whether a checkpoint can be written here.

    Raises:
        ValueError: It cannot; the message is one sentence.
    """
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"--save {path}: this is a folder, name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"--save {path}: no such folder")
