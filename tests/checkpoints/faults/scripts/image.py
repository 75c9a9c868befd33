"""A training script of the usual kind: saved from the wrapper, everything in one dict."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCHES = 4  # of an epoch, on two ranks
DATA = TensorDataset(
    torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3
)


class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(self.norm(self.stem(x)).relu()).relu())


class Job:
    """Everything that a rank builds, before anything is loaded."""

    def __init__(self, seed=1, net=None, adam=False, lr=0.1, scale=65536.0, **wrapping):
        rank = dist.get_rank() if dist.is_initialized() else 0
        torch.manual_seed(100 * seed + rank)
        self.net = net or Net()
        self.wrapping = wrapping
        if adam:
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)
        else:
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9)
        self.scheduler = self.schedule()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=7)
        self.ema = self.average()
        self.sampler = DistributedSampler(DATA) if dist.is_initialized() else None
        self.loader = DataLoader(DATA, 4, sampler=self.sampler, drop_last=True)
        self.ddp = None

    def schedule(self):
        warm = LinearLR(self.optimizer, 0.1, total_iters=5)
        return SequentialLR(self.optimizer, [warm, CosineAnnealingLR(self.optimizer, 40)], [5])

    def average(self):
        return AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    def wrap(self):
        self.ddp = DistributedDataParallel(self.net, **self.wrapping)
        return self.ddp

    def train(self, steps, start=0):
        model = self.ddp or self.net
        model.train()
        for step in range(start, start + steps):
            epoch, position = divmod(step, len(self.loader))
            if self.sampler is not None and (step == start or not position):
                self.sampler.set_epoch(epoch)
            x, y = list(self.loader)[position]
            loss = nn.functional.cross_entropy(model(x), y)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            self.ema.update_parameters(self.net)

    def checkpoint(self, step, weights=None):
        states = [torch.get_rng_state()] * 1
        if dist.is_initialized():
            states = [None] * dist.get_world_size()
            dist.all_gather_object(states, torch.get_rng_state())
        return {
            "epoch": step // BATCHES,
            "step": step,
            "arch": "net",
            "state_dict": (self.ddp or self.net).state_dict() if weights is None else weights,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "model_ema": self.ema.state_dict(),
            "rng_states": states,
        }

    def load_rest(self, checkpoint, *but):
        """Loads everything but the weights and what is named."""
        parts = {
            "optimizer": self.optimizer.load_state_dict,
            "scheduler": self.scheduler.load_state_dict,
            "scaler": self.scaler.load_state_dict,
            "model_ema": self.ema.load_state_dict,
        }
        for name, load in parts.items():
            if name not in but:
                load(checkpoint[name])
        if self.sampler is not None and "sampler" not in but:
            self.sampler.set_epoch(checkpoint["step"] // len(self.loader))
        if "rng_states" not in but:
            rank = dist.get_rank() if dist.is_initialized() else 0
            torch.set_rng_state(checkpoint["rng_states"][rank])

    def given(self, *but):
        """The arguments of an audit."""
        everything = {
            "model": self.ddp or self.net,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            "ema": self.ema,
            "loader": self.loader,
        }
        return {name: value for name, value in everything.items() if name not in but}


def bare(weights):
    return {name.removeprefix("module."): value for name, value in weights.items()}
