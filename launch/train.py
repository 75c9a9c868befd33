"""Train a small network on handwritten digits with DistributedDataParallel, save it, resume it.

    torchrun --standalone --nproc-per-node 4 train.py --steps 120 --save digits.pt
    torchrun --standalone --nproc-per-node 4 train.py --steps 240 --resume digits.pt

Every rank runs this file. `main` starts and ends the process group, `train` is the training, and
`orders.py` holds the ways to load the checkpoint and wrap the model.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d, relu
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from loadwrap import log
from orders import ORDERS, check_place, find_order, step_of

SCHEDULES = {  # the learning rate, as a factor of --lr, by the share of the steps done
    "constant": lambda done: 1.0,
    "cosine": lambda done: min(1.0, 0.1 + 9 * done) * (1 + math.cos(math.pi * done)) / 2,
}


class DigitNet(nn.Module):
    """Two convolutions with batch norm, dropout and a linear head: [n, 1, 8, 8] to [n, 10]."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(32 * 2 * 2, 10)
        nn.init.normal_(self.head.weight, std=0.01)  # a small head guesses evenly: loss ln 10
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        x = max_pool2d(relu(self.norm1(self.conv1(images))), 2)
        x = max_pool2d(relu(self.norm2(self.conv2(x))), 2)
        return self.head(self.dropout(x.flatten(1)))


def choose_device() -> tuple[str, torch.device]:
    """Return the backend, and the device of this rank."""
    local_rank = int(os.environ["LOCAL_RANK"])
    ranks = int(os.environ["LOCAL_WORLD_SIZE"])  # on this machine
    gpus = torch.cuda.device_count()
    if gpus == 0:
        torch.set_num_threads(1)  # the ranks already share the cores
        return "gloo", torch.device("cpu")
    device = torch.device("cuda", local_rank % gpus)
    torch.cuda.set_device(device)
    # nccl refuses two ranks on one GPU
    return ("nccl" if gpus >= ranks else "gloo"), device


def digits(train: bool) -> TensorDataset:
    """Return scikit-learn's 8x8 images, scaled to 0..1: every fifth to test, the rest to train."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    chosen = (torch.arange(len(images)) % 5 != 0) == train
    return TensorDataset(images[chosen], torch.tensor(data.target)[chosen])


def batches(
    loader: DataLoader[Any], sampler: DistributedSampler[Any], start: int, stop: int
) -> Iterator[tuple[int, list[Tensor]]]:
    """Yield steps `start` to `stop` with their batches, the same as an uninterrupted run sees."""
    for step in range(start, stop):
        epoch, position = divmod(step, len(loader))
        if step == start or position == 0:
            sampler.set_epoch(epoch)  # without it every epoch repeats the first one's order
            stream = islice(loader, position, None)
        yield step, next(stream)


def save(
    path: Path, step: int, model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR
) -> None:
    """Write a checkpoint. Rank 0 alone writes, and no rank leaves before the file is whole."""
    if dist.get_rank() == 0:
        checkpoint = {
            "step": step,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        }
        partial = f"{path}.partial"
        torch.save(checkpoint, partial)
        os.replace(partial, path)  # a reader finds the old file or the new one, never half of one
    dist.barrier()


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset, device: torch.device) -> float:
    """Return the share of test images that this rank's own replica names rightly."""
    images, labels = (tensor.to(device) for tensor in test.tensors)
    mode = model.training
    model.eval()
    share = (model(images).argmax(1) == labels).float().mean().item()
    model.train(mode)  # as it was: an evaluation leaves no trace
    return share


@torch.no_grad()
def distance_to_rank0(model: nn.Module) -> float:
    """Return how far this rank's parameters lie from rank 0's: the norm of the difference."""
    mine = parameters_to_vector(model.parameters())
    rank0 = mine.clone()
    dist.broadcast(rank0, src=0)
    return (mine - rank0).norm().item()


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Build, load and wrap, then train from the checkpoint's step, or from 0, to `args.steps`."""
    torch.manual_seed(args.seed + dist.get_rank())  # each rank starts from other weights
    model = DigitNet(args.dropout).to(device)
    options = {"lr": args.lr, "weight_decay": args.weight_decay}
    if args.optimizer == "sgd":
        optimizer: Optimizer = SGD(model.parameters(), momentum=args.momentum, **options)
    else:
        optimizer = AdamW(model.parameters(), **options)
    scheduler = LambdaLR(optimizer, lambda step: SCHEDULES[args.schedule](step / args.steps))

    start = step_of(args.resume)
    if args.resume:
        if start >= args.steps:
            sys.exit(f"train.py: {args.resume} is at step {start} already; ask for more --steps")
        ddp = args.order(model, optimizer, scheduler, args.resume)
        if not isinstance(ddp, DistributedDataParallel):
            sys.exit(f"train.py: --order returned {type(ddp).__name__}, not the wrapped model")
        for group in optimizer.param_groups:  # loading brought back the saved rate: use --lr
            if group["initial_lr"] == 0:
                sys.exit(f"train.py: {args.resume} was saved with --lr 0: no rate to scale")
            group["lr"] *= args.lr / group["initial_lr"]
            group["initial_lr"] = args.lr
        scheduler.base_lrs = [args.lr for _ in scheduler.base_lrs]
    else:
        ddp = DistributedDataParallel(model)

    data, test = digits(train=True), digits(train=False)
    # DDP averages gradients and never shares out the data: the sampler gives each rank its part.
    sampler: DistributedSampler[Any] = DistributedSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    if len(loader) == 0:
        sys.exit(f"train.py: a rank has {len(sampler)} images; ask for a smaller --batch-size")
    log(start, accuracy=accuracy(ddp.module, test, device))
    for step, (images, labels) in batches(loader, sampler, start, args.steps):
        if args.distance_every and step % args.distance_every == 0:
            log(step, distance=distance_to_rank0(ddp.module))
        loss = cross_entropy(ddp(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        log(step, loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")  # of rank 0 alone, as most scripts do it
        optimizer.step()
        scheduler.step()
    log(args.steps, accuracy=accuracy(ddp.module, test, device))
    if args.save:
        save(args.save, args.steps, ddp.module, optimizer, scheduler)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; a bad argument ends every rank with one sentence."""
    parser = argparse.ArgumentParser(usage="torchrun --nproc-per-node N train.py [OPTIONS]")
    parser.add_argument("--steps", type=int, default=120, help="train up to this step")
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9, help="of sgd")
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--dropout", type=float, default=0.1, help="0 leaves nothing to chance: "
                        "a right resume then equals an uninterrupted run")  # fmt: skip
    parser.add_argument("--schedule", choices=SCHEDULES, default="constant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="write a checkpoint here at the end")
    parser.add_argument("--resume", type=Path, help="continue from this checkpoint")
    parser.add_argument("--order", default="load_everywhere_then_wrap", help="how to resume: "
                        f"{', '.join(ORDERS)}, or PATH.py:NAME")  # fmt: skip
    parser.add_argument("--distance-every", type=int, default=0, help="0: never")
    args = parser.parse_args()
    try:
        args.order = find_order(args.order)
        step_of(args.resume)
        check_place(args.save)
    except ValueError as error:
        parser.error(str(error))
    if min(args.steps, args.batch_size) < 1:
        parser.error("--steps and --batch-size must be at least 1")
    if not 0 <= args.dropout <= 1:
        parser.error("--dropout must be between 0 and 1")
    return args


def main() -> None:
    args = parse_arguments()
    backend, device = choose_device()
    dist.init_process_group(backend)
    train(args, device)  # its DDP object is gone when it returns: destroying the group is safe
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
