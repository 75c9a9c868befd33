"""The mean of a run, for a figure in which the ranks' own lines would say less."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..curves.store import Steps, Values
    from ..run import Run

__all__ = ["MeanOnly"]


class MeanOnly:
    """A run as ``plot_runs`` takes it, of which only the mean over its ranks is seen.

    Args:
        run: The run.
        stop: The step before which the figure ends.
    """

    def __init__(self, run: Run, stop: int) -> None:
        self._run, self._stop = run, stop

    def curve(self, metric: str = "loss") -> dict[int, tuple[Steps, Values]]:
        """Returns the mean, as if it were rank 0's."""
        return {0: self.mean(metric)}

    def mean(self, metric: str = "loss") -> tuple[Steps, Values]:
        """Returns the mean over the ranks at the steps before the end."""
        steps, values = self._run.mean(metric)
        return steps[steps < self._stop], values[steps < self._stop]
