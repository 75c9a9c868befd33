"""One rank of a run, for a figure in which the mean over all ranks would say less."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..curves.store import Steps, Values
    from ..run import Run

__all__ = ["OneRank"]


class OneRank:
    """A run as ``plot_runs`` takes it, of which only one rank is seen.

    Rank 0 is at distance 0 from itself, so a mean of distances is too low: rank 1's own is what
    tells how far two replicas are apart.

    Args:
        run: The run.
        rank: The rank to see.

    Raises:
        ValueError: If the run has no such rank.
    """

    def __init__(self, run: Run, rank: int) -> None:
        if rank not in run.ranks:
            raise ValueError(f"the run has no rank {rank}, only {', '.join(map(str, run.ranks))}")
        self._run, self._rank = run, rank

    def curve(self, metric: str = "loss") -> dict[int, tuple[Steps, Values]]:
        """Returns the rank's curve, by its number."""
        return {self._rank: self._run.curve(metric)[self._rank]}

    def mean(self, metric: str = "loss") -> tuple[Steps, Values]:
        """Returns the rank's curve: of one rank alone it is the mean."""
        return self._run.curve(metric)[self._rank]
