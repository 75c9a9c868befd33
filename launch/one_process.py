"""Train a small network on handwritten digits in one process, save it half-way, resume it.

    torchrun --nproc-per-node 1 one_process.py --save digits.pt
    torchrun --nproc-per-node 1 one_process.py --resume digits.pt --restore PATH.py:NAME

No DDP: whatever a resume loses here, it loses on one process too. `restore` is yours. It gets the
file's path and the freshly built objects, and returns the epoch to go on with.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler

from loadwrap import log
from orders import check_place, find_order
from train import DigitNet, choose_device, digits

EPOCHS, HALF_WAY = 6, 3


def save(
    path: Path, epoch: int, model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler
) -> None:
    """Write the four parts of a run: which epoch comes next, and what the three objects know."""
    checkpoint = {
        "epoch": epoch,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }
    partial = f"{path}.partial"
    torch.save(checkpoint, partial)
    os.replace(partial, path)


def batches(images: Tensor, labels: Tensor, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of one epoch, in an order that depends on the epoch and on nothing else."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
    for chosen in order.to(images.device).split(32):
        yield images[chosen], labels[chosen]


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Train from the epoch that `args.restore` names, or from 0, up to the last step."""
    torch.manual_seed(args.seed)
    images, labels = (tensor.to(device) for tensor in digits(train=True).tensors)
    model = DigitNet().to(device)
    torch.backends.cudnn.deterministic = True
    model.dropout.p = 0.0  # no random numbers in a step: they are a part to save of their own
    optimizer = AdamW(model.parameters(), lr=args.lr)
    steps = len(images.split(32))  # of an epoch
    scheduler = CosineAnnealingLR(optimizer, T_max=EPOCHS * steps)

    first = drawn = 0
    if args.resume:
        first = args.restore(args.resume, model, optimizer, scheduler)
        # Where the figure draws the run, whatever epoch the run takes this for.
        drawn = HALF_WAY * steps
    for epoch in range(first, EPOCHS):
        for some, answers in batches(images, labels, epoch):
            if drawn == EPOCHS * steps:
                return  # a run that lost its epoch would go on
            loss = cross_entropy(model(some), answers)
            optimizer.zero_grad()
            loss.backward()
            log(drawn, loss=loss.item(), lr=optimizer.param_groups[0]["lr"], epoch=epoch)
            optimizer.step()
            scheduler.step()
            drawn += 1
        if args.save and epoch + 1 == HALF_WAY:
            save(args.save, epoch + 1, model, optimizer, scheduler)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; a bad argument ends the process with one sentence."""
    parser = argparse.ArgumentParser(usage="torchrun --nproc-per-node 1 one_process.py [OPTIONS]")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="write a checkpoint here half-way")
    parser.add_argument("--resume", type=Path, help="continue from this checkpoint")
    parser.add_argument("--restore", help="PATH.py:NAME of the function that restores it")
    args = parser.parse_args()
    if int(os.environ["WORLD_SIZE"]) != 1:
        parser.error("this script is for one process; train.py is for several")
    if bool(args.resume) != bool(args.restore):
        parser.error("--resume and --restore go together")
    if args.resume and not args.resume.is_file():
        parser.error(f"--resume {args.resume}: no such file")
    try:
        check_place(args.save)
        if args.restore:
            args.restore = find_order(args.restore)
    except ValueError as error:
        parser.error(str(error))
    return args


if __name__ == "__main__":
    train(parse_arguments(), choose_device()[1])
