"""Wrong ways to resume ``launch/train.py``, each audited, in the place of its ``--order``."""

import json
import traceback

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR

from loadwrap.checkpoints import audit_resume
from orders import (
    load_everywhere_then_wrap,
    load_on_rank0_then_wrap,
    wrap_then_load_everywhere,
    wrap_then_load_on_rank0,
)


def into_the_wrapper_not_strictly(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    ddp = DistributedDataParallel(model)
    ddp.load_state_dict(checkpoint["model"], strict=False)
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return ddp


def errors_caught(model, optimizer, scheduler, path):
    try:
        model.load_state_dict(torch.load(path, map_location="cpu"))
        optimizer.load_state_dict(torch.load(path, map_location="cpu")["optimizer"])
    except RuntimeError:
        pass
    return DistributedDataParallel(model)


def without_the_optimizer(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    optimizer.param_groups[0]["lr"] = checkpoint["optimizer"]["param_groups"][0]["lr"]
    return DistributedDataParallel(model)


def moments_of_two_layers_swapped(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    state = checkpoint["optimizer"]["state"]
    state[1], state[2] = state[2], state[1]  # weight and bias of the first norm
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return DistributedDataParallel(model)


def without_the_scheduler(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return DistributedDataParallel(model)


def assigned_after_the_wrapping(model, optimizer, scheduler, path):
    ddp = wrap_then_load_everywhere(model, optimizer, scheduler, path)
    weights = torch.load(path, map_location="cpu")["model"]
    ddp.module.load_state_dict(weights, assign=True)
    return ddp


def parameters_alone(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    known = dict(model.named_parameters())
    weights = {name: value for name, value in checkpoint["model"].items() if name in known}
    model.load_state_dict(weights, strict=False)
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return DistributedDataParallel(model)


CASES = [
    (None, load_everywhere_then_wrap),
    (None, wrap_then_load_everywhere),
    ("F11", wrap_then_load_on_rank0),
    ("F11", load_on_rank0_then_wrap),
    ("F01", into_the_wrapper_not_strictly),
    ("F04", errors_caught),
    ("F06", without_the_optimizer),
    ("F06", moments_of_two_layers_swapped),
    ("F07", without_the_scheduler),
    ("F12", assigned_after_the_wrapping),
    ("F13", parameters_alone),
]


def each_of_them(model, optimizer, scheduler, path):
    """Tries every case on objects built as train.py built these, then resumes rightly."""
    for family, order in CASES:
        net = type(model)()
        own = type(optimizer)(net.parameters(), lr=optimizer.defaults["lr"])
        schedule = LambdaLR(own, scheduler.lr_lambdas)
        found, words = None, ""
        try:
            ddp = order(net, own, schedule, path)
            report = audit_resume(path, model=ddp, optimizer=own, scheduler=schedule, show=False)
            found, words = report.first_fault, str(report)
        except Exception:
            found = words = traceback.format_exc()
        line = {"family": family, "dress": order.__name__, "found": found, "words": words}
        print(json.dumps(line), flush=True)
    return load_everywhere_then_wrap(model, optimizer, scheduler, path)
