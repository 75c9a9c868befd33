"""Warm and cold jobs train alike: every loss of every rank is equal to the last bit."""

from pathlib import Path

import numpy as np
import pytest

from loadwrap import first_difference, torchrun

TRAIN = Path(__file__).parents[2] / "launch" / "train.py"


@pytest.mark.parametrize("nproc", [1, 2, 4, 8])
def test_warm_and_cold_losses_are_equal(nproc, tmp_path):
    warm, cold = (
        torchrun(TRAIN, "--steps", 12, nproc_per_node=nproc, live=False, warm=warm).wait()
        for warm in (True, False)
    )
    assert warm.ranks == cold.ranks == tuple(range(nproc))
    assert warm.metrics == cold.metrics
    for name in warm.metrics:
        for rank, (steps, values) in cold.curve(name).items():
            assert np.array_equal(warm.curve(name)[rank][0], steps)
            assert warm.curve(name)[rank][1].tobytes() == values.tobytes()
    assert len(warm.curve("loss")[nproc - 1][0]) == 12
    assert first_difference(warm, cold, "loss") is None
