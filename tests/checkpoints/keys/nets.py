"""Random nets, wrappers at random places, and the truth about which tensor is which."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn

# Names that a wrapper or a task prefix might bear, and some that they do not.
WORDS = (
    "module", "base_module", "model", "backbone", "_orig_mod", "orig_mod", "module_",
    "_fsdp_wrapped_module", "net", "a", "b", "0", "1", "blocks", "head",
)  # fmt: skip
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
PREFIXES = ("model", "backbone", "net", "base_model.model", "encoder")

Path = tuple[str, ...]


class Net(nn.Module):
    """Children under any names at all, beside parameters and buffers of its own."""


def leaf(kind: int) -> nn.Module:
    # Few shapes, so that many tensors could be taken for another.
    return (nn.Linear(2, 2), nn.Linear(2, 3, bias=False), nn.BatchNorm1d(2))[kind]


@st.composite
def nets(draw: st.DrawFn, depth: int = 3) -> nn.Module:
    net = Net()
    for name in draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True)):
        if depth > 1 and draw(st.booleans()):
            net.add_module(name, draw(nets(depth - 1)))
        else:
            net.add_module(name, leaf(draw(st.integers(0, 2))))
    if draw(st.integers(0, 4)) == 0:
        net.register_parameter("weight", nn.Parameter(torch.zeros(2, 2)))
    return net


def modules(names: list[str]) -> list[Path]:
    """Returns the path of every module that the names go through."""
    paths = dict.fromkeys(
        tuple(name.split(".")[:depth]) for name in names for depth in range(name.count(".") + 1)
    )
    return list(paths)


@dataclass(frozen=True)
class Dress:
    """How a side writes a net's names: wrappers at some modules, a prefix in front of all."""

    wrappers: Mapping[Path, Path]
    prefix: str = ""

    def __call__(self, name: str) -> str:
        path = tuple(name.split("."))
        worn: list[str] = [*self.wrappers.get((), ())]
        for depth, segment in enumerate(path, 1):
            worn.append(segment)
            if depth < len(path):
                worn.extend(self.wrappers.get(path[:depth], ()))
        return ".".join((*filter(None, [self.prefix]), *worn))


@st.composite
def dresses(draw: st.DrawFn, net: nn.Module, prefixed: bool) -> Dress:
    places = modules(list(net.state_dict()))
    chains = st.lists(st.sampled_from(WRAPPERS), min_size=1, max_size=3).map(tuple)
    chosen = draw(st.lists(st.sampled_from(places), max_size=3, unique=True))
    prefix = draw(st.sampled_from(("", *PREFIXES))) if prefixed else ""
    return Dress({place: draw(chains) for place in chosen}, prefix)


def dressed(net: nn.Module, dress: Dress) -> nn.Module:
    """Builds the module whose state dict bears the names of a dress."""
    top = Net()
    for name, value in net.state_dict().items():
        *path, last = dress(name).split(".")
        place = top
        for segment in path:
            if segment not in place._modules:
                place.add_module(segment, Net())
            place = place._modules[segment]
        place.register_buffer(last, value.clone())
    return top


def numbered(net: nn.Module) -> dict[str, torch.Tensor]:
    """Returns the net's state with numbers that no two tensors share."""
    count = itertools.count(1)
    return {name: torch.full_like(value, next(count)) for name, value in net.state_dict().items()}
