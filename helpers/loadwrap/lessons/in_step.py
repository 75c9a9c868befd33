"""What a lesson reads off a run: the images drawn, in how many versions, and how it ended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..jobs.errors import JobFailed

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["MEASURED", "drawn", "how_often", "outcome", "values_of", "versions"]

# A function for on_every_rank.py: it calls the one that is named after it, and measures its steps.
MEASURED = f"{Path(__file__).with_name('measured.py')}:measured"
EPOCH = 360  # images that a rank draws in an epoch


def drawn(run: Run, name: str) -> np.ndarray:
    """Waits for a run whose ranks logged the numbers of images, and returns them in their order.

    Args:
        run: The run.
        name: The metric.

    Returns:
        Integers, [ranks, epochs, 360].
    """
    run.wait()
    curves = run.curve(name)
    numbers = np.array([curves[rank][1] for rank in run.ranks]).astype(int)
    return numbers.reshape(len(run.ranks), -1, EPOCH)


def how_often(run: Run, name: str, images: int) -> list[int]:
    """Waits for a run as ``drawn`` does, and counts how often the images came in epoch 0.

    Args:
        run: The run.
        name: The metric.
        images: How many images there are.

    Returns:
        How many images were drawn by no rank, once, twice, and so on.
    """
    times = np.bincount(drawn(run, name)[:, 0].flat, minlength=images)
    return [int(count) for count in np.bincount(times)]


def versions(run: Run, name: str) -> list[int]:
    """Waits for a run's end, and returns for each step how many different values its ranks logged.

    Args:
        run: The run, which may have failed.
        name: The metric.
    """
    outcome(run)
    return [len(set(step)) for step in zip(*values_of(run, name).values(), strict=True)]


def outcome(run: Run) -> str:
    """Waits for a run's end, and says what it was.

    Args:
        run: The run, which may have failed.

    Returns:
        ``"finished"``, or the error that stopped it; of replicas out of sync the tensor, without
        the measured difference.
    """
    try:
        run.wait()
    except JobFailed as failure:
        found = re.findall(r"^(?:\w+\.)*(\w+(?:Error|OutOfSync)): (.*)$", failure.traceback, re.M)
        if not found:
            return "stopped by an error"
        name, words = found[-1]
        return f"stopped by {name}: {words.partition(' differs')[0]}"
    return "finished"


def values_of(run: Run, name: str) -> dict[int, list[float]]:
    """Returns what each rank logged of a metric, in the order of its steps."""
    return {rank: values.tolist() for rank, (_, values) in run.curve(name).items()}
