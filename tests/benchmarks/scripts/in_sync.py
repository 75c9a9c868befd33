"""Prints, on rank 0, the seconds of assert_in_sync and of one all-reduce of the gradients."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn

from loadwrap.checkpoints import assert_in_sync


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(24)])  # 100.7 million parameters
    gradients = torch.zeros(sum(parameter.numel() for parameter in model.parameters()))
    for turn in range(int(sys.argv[1]) + 1):  # the first is slow: memory is mapped
        checked = timed(lambda: assert_in_sync(model))
        reduced = timed(lambda: dist.all_reduce(gradients))
        if turn and dist.get_rank() == 0:
            print(checked, reduced, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def timed(call) -> float:
    dist.barrier()
    start = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
