"""What the constructor of DDP really sends for some small networks: a job of two ranks tells.

The check of an exercise starts it as ``python -m loadwrap.lessons.sending`` would be started by
torchrun; the networks are built again in the notebook, where the learner's function counts them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["networks", "sent"]

_BYTES = {"float": 4, "double": 8, "long int": 8, "c10::Half": 2}


def networks() -> dict[str, nn.Module]:
    """Returns the networks by what is special about each."""
    import torch
    from torch import nn

    half = nn.Linear(5, 3).half()
    frozen = nn.Sequential(nn.Linear(6, 7), nn.Linear(7, 2))
    frozen[0].requires_grad_(False)
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    hidden = nn.Linear(3, 2)
    hidden.register_buffer("mask", torch.ones(9), persistent=False)
    return {
        "two linear layers": nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 2)),
        "batch norm, which has buffers": nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)),
        "half precision": half,
        "a frozen layer": frozen,
        "two layers that share a weight": tied,
        "a buffer that no state dict holds": hidden,
    }


def sent(model: nn.Module) -> int:
    """Returns how many bytes of the model the constructor broadcasts, read from the profiler.

    The first broadcast is not of the model: it has the sizes and the strides of the parameters
    that want a gradient, which DDP compares between ranks.
    """
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        DistributedDataParallel(model)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        seen.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    broadcasts: list[dict[str, Any]] = [
        event["args"] for event in events if event.get("name") == "gloo:broadcast"
    ]
    total = sum(
        arguments["Input Dims"][0][0] * _BYTES[arguments["Input type"][0]]
        for arguments in broadcasts
    )
    described = sum(2 * p.dim() for p in model.parameters() if p.requires_grad)
    return total - described * _BYTES["long int"]


def _tell() -> None:
    print(json.dumps({name: sent(model) for name, model in networks().items()}))


if __name__ == "__main__":
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)  # the ranks already share the cores
    dist.init_process_group("gloo")
    _tell()  # its DDP objects are gone when it returns: destroying the group is safe
    dist.barrier()
    dist.destroy_process_group()
