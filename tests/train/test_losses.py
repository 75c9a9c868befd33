"""What train.py computes: golden losses, and what each order of loading does to them."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch

from loadwrap import first_difference, torchrun

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RIGHT = ("load_everywhere_then_wrap", "wrap_then_load_everywhere")


def golden_module():
    spec = importlib.util.spec_from_file_location("renew", GOLDEN / "renew.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("recipe", golden_module().RECIPES)
def test_the_losses_are_the_golden_ones(recipe: str, tmp_path: Path) -> None:
    golden = golden_module()
    kept = json.loads((GOLDEN / f"{recipe}.json").read_text())
    now = golden.losses(golden.run_of(recipe, tmp_path))
    assert now.keys() == kept.keys()
    for rank, values in now.items():
        assert values == pytest.approx(kept[rank], rel=2e-3, abs=2e-3), f"rank {rank}"


def test_the_first_loss_is_that_of_a_guess(train) -> None:
    run = train("--steps", 1, ranks=4)
    assert run.mean("loss")[1][0] == pytest.approx(math.log(10), abs=0.06)


def firsts(run) -> list[float]:
    return [values[0] for _, (_, values) in sorted(run.curve("loss").items())]


def spread(run) -> list[float]:
    """The last distance of each rank from rank 0."""
    return [values[-1] for _, (_, values) in sorted(run.curve("distance").items())]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A checkpoint of AdamW, whose state matters, at step 40."""
    folder = tmp_path_factory.mktemp("saved")
    recipe = ("--optimizer", "adamw", "--lr", 0.01, "--steps", 40, "--save", folder / "digits.pt")
    script = GOLDEN.parents[1] / "launch" / "train.py"
    torchrun(script, *recipe, nproc_per_node=2, live=False, runs=folder).wait()
    return folder / "digits.pt"


@pytest.fixture
def resume(train, saved):
    def resuming(order: str, steps: int = 46):
        recipe = ("--optimizer", "adamw", "--lr", 0.01, "--seed", 1, "--distance-every", 1)
        return train(*recipe, "--resume", saved, "--order", order, "--steps", steps)

    return resuming


@pytest.mark.parametrize("order", RIGHT)
def test_a_right_order_goes_on_where_it_stopped(order: str, resume) -> None:
    run = resume(order)
    assert max(firsts(run)) < 1.2
    assert spread(run) == [0, 0]


def test_without_dropout_a_resumed_run_is_the_uninterrupted_one(train, tmp_path: Path) -> None:
    """To the last bit, on two ranks: on more, the sums come in another order after a restart."""
    plain = ("--optimizer", "adamw", "--lr", 0.01, "--dropout", 0)
    whole = train(*plain, "--steps", 50)
    train(*plain, "--steps", 40, "--save", tmp_path / "digits.pt")
    resumed = train(*plain, "--steps", 50, "--resume", tmp_path / "digits.pt", "--seed", 1)
    assert first_difference(whole, resumed) is None


def test_loading_on_rank_0_after_wrapping_leaves_a_stranger(resume) -> None:
    run = resume("wrap_then_load_on_rank0")
    first = firsts(run)
    assert first[0] < 1.2 and first[1] == pytest.approx(math.log(10), abs=0.2)
    assert spread(run)[1] > 1


def test_loading_on_rank_0_before_wrapping_forgets_the_optimizer(resume) -> None:
    run = resume("load_on_rank0_then_wrap")
    assert max(firsts(run)) < 1.2  # nothing spikes
    distance = run.curve("distance")[1][1]
    assert distance[0] == 0 and distance[-1] > 0.01  # and yet the replicas drift


def test_the_checkpoint_is_plain_and_whole(saved: Path) -> None:
    checkpoint = torch.load(saved, map_location="cpu", weights_only=True)
    assert set(checkpoint) == {"step", "model", "optimizer", "scheduler"}
    assert checkpoint["step"] == 40
    assert not any(key.startswith("module.") for key in checkpoint["model"])
    assert len(checkpoint["optimizer"]["state"]) > 0
    assert [path.name for path in saved.parent.glob("digits.pt*")] == ["digits.pt"]


def test_the_rate_of_a_resumed_run_is_the_one_asked_for(train, saved: Path) -> None:
    recipe = ("--optimizer", "adamw", "--resume", saved, "--steps", 42)
    run = train(*recipe, "--lr", 0.005)
    assert set(run.curve("lr")[0][1].tolist()) == {0.005}
    assert run.curve("loss")[0][0].tolist() == [40, 41]
