"""An order for ``launch/train.py`` as a learner writes one, with one fault and an audit."""

import torch
from torch.nn.parallel import DistributedDataParallel

from loadwrap.checkpoints import audit_resume


def without_moments(model, optimizer, scheduler, path):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    for group, then in zip(
        optimizer.param_groups, checkpoint["optimizer"]["param_groups"], strict=True
    ):
        group["lr"] = then["lr"]
    ddp = DistributedDataParallel(model)
    audit_resume(path, model=ddp, optimizer=optimizer, scheduler=scheduler)
    return ddp
