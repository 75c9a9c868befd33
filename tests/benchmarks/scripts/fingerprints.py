"""Prints the seconds of a fingerprint of 1 GB, and of the sum of the same memory."""

import sys
import time

import torch

from loadwrap.checkpoints import fingerprint


def main() -> None:
    tensor = torch.randn(1 << 28)
    for turn in range(int(sys.argv[1]) + 1):  # the first is slow: code is loaded
        taken = [timed(lambda: fingerprint(tensor)), timed(lambda: tensor.sum())]
        if turn:
            print(*taken, flush=True)


def timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
