"""What a check measures in a learner's job by itself, whatever the learner's own code logs.

The job calls ``measured`` on every rank, through ``launch/on_every_rank.py``, and that calls the
learner's function, with hooks on what torch offers hooks for. Nothing here is a collective: a rank
logs numbers of its own, and the check compares them when the job has ended.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from loadwrap import checkpoints, log


def measured(device: torch.device, place: str, *words: str) -> None:
    """Calls a learner's function and logs what it does, step of an optimizer by step.

    Logged are ``weights`` and ``stepped``, the parameters before and after the optimizer; from the
    second step on ``own`` and ``used``, the gradient of this rank's own backward and the one that
    the optimizer gets; ``line``, how many steps were done at each call of assert_in_sync; and
    ``twice``, if DDP wraps a DDP.

    Args:
        device: This rank's device.
        place: The function, as ``PATH:NAME``.
        words: What the function gets besides the device.
    """
    path, _, name = place.rpartition(":")
    with _hooked(_Steps()):
        runpy.run_path(path)[name](device, *words)


class _Steps:
    """What is known of this rank's steps so far."""

    def __init__(self) -> None:
        self.done = self.lines = 0
        self.own: dict[Tensor, list[Tensor]] = {}  # of this step, of each parameter with a hook

    def before(self, optimizer: Optimizer, *_: Any) -> None:
        trained = _parameters(optimizer)
        log(self.done, weights=_shadow(trained))
        both = [p for p in self.own if p.grad is not None]
        if both:
            own = _shadow(grad for p in both for grad in self.own[p])
            log(self.done, own=own, used=_shadow(p.grad for p in both))

    def after(self, optimizer: Optimizer, *_: Any) -> None:
        trained = _parameters(optimizer)
        log(self.done, stepped=_shadow(trained))
        self.done += 1
        for parameter in trained:
            # A parameter's hook sees the gradient before DDP averages it into .grad.
            if parameter not in self.own and parameter.requires_grad:
                parameter.register_hook(lambda grad, mine=parameter: self.own[mine].append(grad))
            if parameter in self.own or parameter.requires_grad:
                self.own[parameter] = []

    def called(self) -> None:
        log(self.lines, line=self.done)
        self.lines += 1


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _shadow(tensors: Iterable[Tensor | None]) -> float:
    """Returns a number that depends on every element, linearly: a mean's is the mean of theirs."""
    total = 0.0
    for tensor in tensors:
        if tensor is not None:
            flat = tensor.detach().double().flatten().cpu()
            at = torch.arange(1, len(flat) + 1, dtype=torch.float64)
            total += float(flat @ (at.sqrt().frac() - 0.5))
    return total


@contextmanager
def _hooked(steps: _Steps) -> Iterator[None]:
    asserted = checkpoints.assert_in_sync

    def line(*arguments: Any, **options: Any) -> Any:
        steps.called()
        return asserted(*arguments, **options)

    def forward(module: nn.Module, _: Any) -> None:
        if isinstance(module, DistributedDataParallel):
            if isinstance(module.module, DistributedDataParallel):
                log(0, twice=1)

    with ExitStack() as stack:
        for handle in (
            register_optimizer_step_pre_hook(steps.before),
            register_optimizer_step_post_hook(steps.after),
            register_module_forward_pre_hook(forward),
        ):
            stack.callback(handle.remove)
        stack.callback(setattr, checkpoints, "assert_in_sync", asserted)
        setattr(checkpoints, "assert_in_sync", line)  # noqa: B010
        yield
