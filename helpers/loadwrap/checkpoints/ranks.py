"""What all ranks of a group do together. Without a process group a rank is alone.

Whoever calls these calls them on every rank of the group, in the same order. A rank that fails
on its own between two of them must say so in the next one (`agree`): if it left, the others
would wait for it until the timeout.
"""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")


class Ranks:
    """The ranks of a group, seen from one of them.

    Args:
        group: A process group; by default all ranks, or this process alone where none was made.

    Raises:
        RuntimeError: torchrun started several ranks, but there is no process group yet: nothing
            could be compared, and silence would look like "equal".
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group
        self.joined = dist.is_available() and dist.is_initialized()
        if not self.joined:
            started = os.environ.get("WORLD_SIZE", "1")
            if "TORCHELASTIC_RUN_ID" in os.environ and started not in ("", "1"):
                raise RuntimeError(
                    f"torchrun started {started} ranks, but there is no process group: call "
                    "torch.distributed.init_process_group() first, and destroy it last"
                )
            self.numbers: tuple[int, ...] = (0,)
            self.me = 0
            return
        self.numbers = tuple(dist.get_process_group_ranks(group or dist.group.WORLD))
        self.me = dist.get_rank()

    @property
    def size(self) -> int:
        """How many ranks the group has."""
        return len(self.numbers)

    @property
    def first(self) -> int:
        """The rank that decides and writes: of all ranks, rank 0."""
        return self.numbers[0]

    @property
    def member(self) -> bool:
        """Whether this rank belongs to the group."""
        return self.me in self.numbers

    @property
    def device(self) -> torch.device:
        """Where a small tensor must lie to be sent: on the CPU if the group can."""
        if not self.joined:
            return torch.device("cpu")
        pairs = str(dist.get_backend_config(self.group)).split(",")
        kinds = [pair.partition(":")[0] for pair in pairs if ":" in pair]
        if not kinds or "cpu" in kinds:
            return torch.device("cpu")
        return torch.device(kinds[0], torch.accelerator.current_device_index())

    def gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        """Returns every rank's integers (64 bits, as many on each rank), in the group's order."""
        if self.size == 1:
            return [list(numbers)]
        mine = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        all_of_them = [torch.empty_like(mine) for _ in self.numbers]
        dist.all_gather(all_of_them, mine, group=self.group)
        return torch.stack(all_of_them).tolist()

    def gather(self, thing: T) -> list[T]:
        """Returns every rank's object, in the group's order."""
        if self.size == 1:
            return [thing]
        mine = _packed(thing).to(self.device)
        sizes = [size for (size,) in self.gather_numbers([len(mine)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8, device=self.device)
        padded[: len(mine)] = mine
        all_of_them = [torch.empty_like(padded) for _ in self.numbers]
        dist.all_gather(all_of_them, padded, group=self.group)
        return [_unpacked(one[:size]) for one, size in zip(all_of_them, sizes, strict=True)]

    def to_first(self, thing: T) -> list[T]:
        """Returns every rank's object on the first rank, and nothing on the others."""
        if self.size == 1:
            return [thing]
        things = self.gather(thing)
        return things if self.me == self.first else []

    def from_first(self, thing: T) -> T:
        """Returns the first rank's object on every rank."""
        if self.size == 1:
            return thing
        mine = _packed(thing if self.me == self.first else None).to(self.device)
        size = self.gather_numbers([len(mine)])[0][0]
        theirs = mine if self.me == self.first else mine.new_empty(size)
        dist.broadcast(theirs, src=self.first, group=self.group)
        return cast(T, _unpacked(theirs))

    def agree(self, failure: BaseException | None) -> dict[int, str]:
        """Returns what failed on which ranks, the same on every rank; empty if nothing did."""
        failed = self.gather_numbers([failure is not None])
        if not any(flag for (flag,) in failed):
            return {}
        said = self.gather(describe(failure) if failure is not None else "")
        return {rank: words for rank, words in zip(self.numbers, said, strict=True) if words}


# torch's own gathering of objects needs numpy, which torch installs without.
def _packed(thing: object) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(thing)), dtype=torch.uint8)


def _unpacked(packed: torch.Tensor) -> Any:
    """Returns what one of this job's own ranks has packed."""
    here = packed.cpu().contiguous()
    return pickle.loads(ctypes.string_at(here.data_ptr(), len(here)))


def describe(error: BaseException) -> str:
    """Returns an error as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def spell(ranks: Sequence[int]) -> str:
    """Returns ``"rank 3"`` or ``"ranks 0, 2-5"``."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(str(rank) for rank in run)
        for run in runs
    ]
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(words)}"
