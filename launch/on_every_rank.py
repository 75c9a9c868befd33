"""Call a function on every rank, inside a process group: the two ends of every DDP script.

    torchrun --standalone --nproc-per-node 4 on_every_rank.py mine.py:train

The function gets this rank's device, and the words that follow its name on the command line.
"""

import runpy
import sys

import torch.distributed as dist

from train import choose_device


def main() -> None:
    place, *words = sys.argv[1:]
    path, _, name = place.rpartition(":")
    function = runpy.run_path(path)[name]
    backend, device = choose_device()  # nccl or gloo, and the GPU that this process uses
    dist.init_process_group(backend)  # finds the others by what torchrun set in the environment
    function(device, *words)  # what it built, its DDP object too, is gone when it returns
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
