"""Call a function on every rank, inside a process group: the two ends of every DDP script.

    torchrun --standalone --nproc-per-node 4 on_every_rank.py mine.py:train

The function gets this rank's device, and the words that follow its name on the command line.
"""

import runpy
import sys
from pathlib import Path

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


def check_arguments() -> None:
    """End this rank with one sentence if the command line names no function of a file."""
    path, _, name = "".join(sys.argv[1:2]).rpartition(":")
    if not (path.endswith(".py") and name):
        sys.exit("on_every_rank.py: name a file and its function, as in mine.py:train")
    if not Path(path).is_file():
        sys.exit(f"on_every_rank.py: {path}: no such file")


if __name__ == "__main__":
    check_arguments()
    try:
        main()
    except KeyError as error:
        own = error.__traceback__ and error.__traceback__.tb_next
        if own and own.tb_next:
            raise  # from within the function
        sys.exit(f"on_every_rank.py: {sys.argv[1].rpartition(':')[0]} has no function {error}")
