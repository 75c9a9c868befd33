"""Writes a checkpoint of 5 GB whose tensors take no room: their records are holes in the file."""

import sys

import torch
from torch.serialization import skip_data


def main(path: str) -> None:
    names = [f"module.layers.{i // 4}.block.{i % 4}.weight" for i in range(396)]
    size = (1024, 1024)
    content = {
        "model": {name: torch.empty(size) for name in names},
        "optimizer": {
            "state": {
                index: {
                    "step": torch.tensor(5.0),
                    "exp_avg": torch.empty(size),
                    "exp_avg_sq": torch.empty(size),
                }
                for index in range(len(names))
            },
            "param_groups": [{"lr": 1e-3, "amsgrad": False, "params": list(range(len(names)))}],
        },
        "epoch": 3,
    }
    with skip_data():
        torch.save(content, path)


if __name__ == "__main__":
    main(sys.argv[1])
