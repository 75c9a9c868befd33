"""Train with everything that a resume has to restore, and resume as somebody else says.

    torchrun --standalone --nproc-per-node 2 everything.py --save all.pt --save-at 35
    torchrun --standalone --nproc-per-node 2 everything.py --resume all.pt --restore mine.py:restore

The network and the images are those of `train.py`; dropout, batch norm, AdamW, a schedule, a
gradient scaler, a moving average and a shuffling sampler each have a state of their own. The
function given to `--restore` gets the freshly built `Job` and the checkpoint. On a GPU dropout
draws from that GPU's generator, whose state is not saved here; with `--cpu` everything is.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.amp import GradScaler
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler

from loadwrap import log
from loadwrap.checkpoints import audit_resume
from orders import find_order
from train import SCHEDULES, DigitNet, choose_device, digits


class Job:
    """Everything that a training step reads or changes. It starts fresh, at step 0."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(args.seed + dist.get_rank())
        self.device = device
        self.ddp = DistributedDataParallel(
            DigitNet().to(device), find_unused_parameters=args.find_unused
        )
        self.ema = AveragedModel(self.ddp.module, multi_avg_fn=get_ema_multi_avg_fn(0.95))
        self.lr: float = args.lr or 0.01  # the rate that was asked for
        self.optimizer = AdamW(self.ddp.parameters(), lr=self.lr)
        self.scheduler = LambdaLR(
            self.optimizer, lambda step: SCHEDULES["cosine"](step / args.steps)
        )
        self.scaler = GradScaler(device.type, init_scale=2.0**18, growth_interval=10)
        self.train, self.test = digits(train=True), digits(train=False)
        self.sampler: DistributedSampler[Any] = DistributedSampler(self.train)
        self.loader = DataLoader(self.train, args.batch_size, sampler=self.sampler, drop_last=True)
        self.step = 0
        self.batches: Iterator[list[Tensor]] | None = None

    def open_loader(self, skip: int | None = None) -> None:
        """Begin to read the epoch of `self.step`, after the batches that are done already."""
        epoch, done = divmod(self.step, len(self.loader))
        self.sampler.set_epoch(epoch)
        self.skipped = done if skip is None else skip
        self.batches = islice(iter(self.loader), self.skipped, None)


def save(job: Job, path: Path) -> None:
    """Write what is needed to go on: rank 0 its own state, and the random state of every rank."""
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, torch.get_rng_state())
    if dist.get_rank() == 0:
        checkpoint = {
            "step": job.step,
            "model": job.ddp.module.state_dict(),
            "optimizer": job.optimizer.state_dict(),
            "scheduler": job.scheduler.state_dict(),
            "scaler": job.scaler.state_dict(),
            "ema": job.ema.state_dict(),
            "rng": states,
        }
        torch.save(checkpoint, path)
    dist.barrier()


def validate(job: Job) -> dict[str, float]:
    """Return accuracy and loss on the test images, of the model and of its moving average."""
    images, labels = (tensor.to(job.device) for tensor in job.test.tensors)
    found = {}
    for name, model in (("", job.ddp.module), ("ema_", job.ema)):
        model.eval()
        with torch.no_grad():
            logits = model(images)
        model.train()
        found[f"{name}accuracy"] = (logits.argmax(1) == labels).float().mean().item()
        found[f"{name}test_loss"] = cross_entropy(logits, labels).item()
    return found


def take_step(job: Job) -> None:
    """Train on the next batch. The logits pass through half precision, hence the scaler."""
    assert job.batches is not None
    images, labels = next(job.batches)
    logits = job.ddp(images.to(job.device)).half().float()
    loss = cross_entropy(logits, labels.to(job.device))
    job.optimizer.zero_grad()
    job.scaler.scale(loss).backward()
    rate, scale = job.optimizer.param_groups[0]["lr"], job.scaler.get_scale()
    log(job.step, loss=loss.item(), lr=rate, scale=scale)
    job.scaler.step(job.optimizer)  # leaves the step out if a gradient is not finite
    job.scaler.update()
    job.scheduler.step()
    job.ema.update_parameters(job.ddp.module)
    job.step += 1
    if job.step % len(job.loader) == 0:
        job.open_loader()


def audit(job: Job, path: Path, asked_lr: float | None) -> None:
    """Compare what the file holds with what the job holds, before its first step."""
    audit_resume(
        path, model=job.ddp, optimizer=job.optimizer, scheduler=job.scheduler, scaler=job.scaler,
        ema=job.ema, loader=job.loader, step=job.step, position=job.skipped, asked_lr=asked_lr,
    )  # fmt: skip


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Build, restore, and take the steps up to `args.stop`."""
    job = Job(args, device)
    if args.resume:
        args.restore(job, torch.load(args.resume, map_location="cpu"))
    if job.batches is None:
        job.open_loader()
    if args.audit:
        audit(job, args.resume, args.lr)
    log(job.step, **validate(job))
    while job.step < args.stop:
        take_step(job)
        if job.step == args.save_at:
            args.save_with(job, args.save)
    log(job.step, **validate(job))


def parse_arguments() -> argparse.Namespace:
    """Read the command line; a bad argument ends every rank with one sentence."""
    parser = argparse.ArgumentParser(usage="torchrun --nproc-per-node N everything.py [OPTIONS]")
    parser.add_argument("--steps", type=int, default=48, help="the length of the schedule")
    parser.add_argument("--stop", type=int, help="stop at this step (default: --steps)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    parser.add_argument("--lr", type=float, help="the schedule's highest rate (default: 0.01)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--find-unused", action="store_true", help="as DDP's argument")
    parser.add_argument("--save", type=Path, help="write a checkpoint here")
    parser.add_argument("--save-at", type=int, help="when this many steps are done")
    parser.add_argument("--save-with", default="", metavar="PATH.py:NAME", help="default: save")
    parser.add_argument("--resume", type=Path, help="continue from this checkpoint")
    parser.add_argument("--restore", default="", metavar="PATH.py:NAME", help="how to continue")
    parser.add_argument("--audit", action="store_true", help="audit the resume")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPUs")
    args = parser.parse_args()
    try:
        args.save_with = find_order(args.save_with) if args.save_with else save
        args.restore = find_order(args.restore) if args.restore else None
    except ValueError as error:
        parser.error(str(error))
    args.stop = args.steps if args.stop is None else args.stop
    if (args.save is None) != (args.save_at is None):
        parser.error("--save and --save-at go together")
    if (args.resume is None) != (args.restore is None):
        parser.error("--resume and --restore go together")
    return args


def main() -> None:
    args = parse_arguments()
    backend, device = ("gloo", torch.device("cpu")) if args.cpu else choose_device()
    if args.cpu:
        torch.set_num_threads(1)
    dist.init_process_group(backend)
    train(args, device)  # its DDP object is gone when it returns: destroying the group is safe
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
