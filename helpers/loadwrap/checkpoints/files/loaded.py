"""What was loaded, from where, and what was not."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .rng import restore


@dataclass
class Loaded:
    """The result of ``load_checkpoint``. Printed, it says in a few lines what was restored.

    Attributes:
        step: Optimizer steps done; 0 where nothing was found or recorded.
        epoch: The epoch of the next step; None where it is not recorded.
        extra: What was saved as such; of a file that is not ours, the entries that are no part.
        path: The file; None where none was found.
        restored: The parts that were restored, in order.
        missing: The parts that were asked for and that the file does not have.
        unused: The parts that the file has and that were not asked for.
        world_size: Of the ranks that saved; None where it is not recorded.
        notes: What else is worth knowing, a sentence each.
        rng: This rank's random states, to be restored last; None where there are none.
        rng_restored: Whether they were.
    """

    step: int = 0
    epoch: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    restored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    world_size: int | None = None
    notes: tuple[str, ...] = ()
    rng: dict[str, Any] | None = field(default=None, repr=False)
    rng_restored: bool = False
    loader_state: torch.Tensor | None = field(default=None, repr=False)

    def restore_rng(self, loader: Any = None) -> None:
        """Puts this rank's random states back: last, when the loader's iterator exists.

        ``iter(loader)`` draws from the default generator, so what is restored before it is
        already wrong at the first batch.

        Args:
            loader: A loader with a generator of its own, whose state is then restored as well.

        Example:
            >>> loaded = Loaded()
            >>> loaded.restore_rng()  # nothing was loaded: does nothing
            >>> loaded.rng_restored
            False
        """
        generator = getattr(loader, "generator", None)
        if self.loader_state is not None and isinstance(generator, torch.Generator):
            generator.set_state(self.loader_state.clone())
        if self.rng is not None:
            self.notes += tuple(restore(self.rng))
            self.rng_restored = True

    def __str__(self) -> str:
        if self.path is None:
            return "\n".join(["no checkpoint yet: nothing was restored", *self.notes])
        lines = [f"{self.path.name}: step {self.step}"]
        if self.epoch is not None:
            lines[0] += f", epoch {self.epoch}"
        lines.append(f"restored: {', '.join(self.restored)}")
        if self.missing:
            lines.append(f"NOT in the file: {', '.join(self.missing)}")
        if self.unused:
            lines.append(f"in the file, not asked for: {', '.join(self.unused)}")
        return "\n".join([*lines, *self.notes])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
