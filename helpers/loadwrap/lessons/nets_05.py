"""The networks that the checks of lesson 05 build: with children whose names are traps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["nets_of_the_exercises", "wrapped"]


def nets_of_the_exercises() -> dict[str, type[nn.Module]]:
    """Returns the networks of the exercises; torch is imported when a check runs."""
    from torch import nn

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)

    class Base(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_module = nn.Linear(3, 3)
            self.head = nn.Linear(3, 1)

    class Child(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)

    class Inner(nn.Module):  # every name of it starts with what a wrapper adds
        def __init__(self) -> None:
            super().__init__()
            self.module = Plain()

    return {"plain": Plain, "base": Base, "child": Child, "inner": Inner}


def wrapped(model: nn.Module, times: int = 1, wrapper: str = "Module") -> nn.Module:
    """Returns a model inside as many wrappers; DDP itself would need a process group."""
    from torch import nn

    for _ in range(times):
        outer: nn.Module = type(wrapper, (nn.Module,), {})()
        outer.module = model
        model = outer
    return model
