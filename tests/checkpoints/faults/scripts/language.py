"""A training script of another kind: compiled, tied weights, two groups, its own average."""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8, bias=False)
        self.value = nn.Linear(8, 8, bias=False)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return x + self.value(torch.tanh(self.query(self.norm(x))))


class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, tokens):
        x = self.emb(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Average:
    """An average as many write it: a dict of tensors and a counter."""

    def __init__(self, net):
        self.num_updates = 0
        self.shadow = {name: value.detach().clone() for name, value in net.named_parameters()}

    @torch.no_grad()
    def update(self, net):
        self.num_updates += 1
        decay = min(0.99, (1 + self.num_updates) / (10 + self.num_updates))
        for name, value in net.named_parameters():
            self.shadow[name].lerp_(value, 1 - decay)

    def state_dict(self):
        return {"shadow": self.shadow, "num_updates": self.num_updates}

    def load_state_dict(self, state):
        self.shadow = {name: value.clone() for name, value in state["shadow"].items()}
        self.num_updates = state["num_updates"]


class Job:
    """Everything that a rank builds, before anything is loaded."""

    def __init__(self, seed=1, net=None, compiled=True, names=False, lr=0.01):
        rank = dist.get_rank() if dist.is_initialized() else 0
        torch.manual_seed(100 * seed + rank)
        self.net = net or Lm()
        self.compiled = torch.compile(self.net) if compiled else self.net
        named = list(self.net.named_parameters())
        decay = [pair for pair in named if pair[1].dim() > 1]
        rest = [pair for pair in named if pair[1].dim() == 1]
        if not names:
            decay, rest = [value for _, value in decay], [value for _, value in rest]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=lr)
        self.scheduler = LambdaLR(self.optimizer, lambda n: min(1, (n + 1) / 4) * math.exp(-n / 30))
        self.ema = Average(self.net)
        self.ddp = None

    def wrap(self):
        self.ddp = DistributedDataParallel(self.compiled)
        return self.ddp

    def train(self, steps):
        # A compiled model would be compiled at its first forward: the net itself is called.
        generator = torch.Generator().manual_seed(7)
        for _ in range(steps):
            tokens = torch.randint(16, (4, 6), generator=generator)
            loss = nn.functional.cross_entropy(self.net(tokens).flatten(0, 1), tokens.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.ema.update(self.net)

    def checkpoint(self, step):
        return {
            "model": self.compiled.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "lr_scheduler": self.scheduler.state_dict(),
            "ema": self.ema.state_dict(),
            "iter_num": step,
            "config": {"n_layer": 2},
        }

    def load_rest(self, checkpoint, *but):
        """Loads everything but the weights and what is named."""
        parts = {
            "optimizer": self.optimizer.load_state_dict,
            "lr_scheduler": self.scheduler.load_state_dict,
            "ema": self.ema.load_state_dict,
        }
        for name, load in parts.items():
            if name not in but:
                load(checkpoint[name])

    def given(self, *but):
        """The arguments of an audit."""
        everything = {
            "model": self.ddp or self.compiled,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "ema": self.ema,
        }
        return {name: value for name, value in everything.items() if name not in but}
