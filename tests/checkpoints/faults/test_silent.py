"""Every silent fault, in two dresses or more: the audit names its family as the first fault."""

from collections import Counter
from pathlib import Path

import pytest

from checkpoints.faults.dresses import SCRIPTS, decorated
from loadwrap import torchrun

LAUNCH = Path(__file__).resolve().parents[3] / "launch"


@pytest.fixture(scope="module")
def silent(job):
    return job("silent.py")


@pytest.fixture(scope="module")
def digits(job, tmp_path_factory):
    """The same on objects of launch/train.py, in the place of its order."""
    file = tmp_path_factory.mktemp("digits") / "digits.pt"
    common = ("--optimizer", "adamw", "--lr", "0.01", "--schedule", "cosine")
    job(LAUNCH / "train.py", "--steps", "12", "--save", str(file), *common)
    order = f"{SCRIPTS / 'digit_orders.py'}:each_of_them"
    resumed = ("--steps", "14", "--resume", str(file), "--order", order)
    return job(LAUNCH / "train.py", *resumed, *common)


@pytest.mark.parametrize("name", decorated("silent.py", "dress"))
def test_the_first_fault_is_named_on_every_rank(silent, name):
    for rank in silent:
        line = rank[name]
        assert line["found"] is not None and line["found"][:3] == line["family"], line["words"]


def test_each_silent_family_has_two_dresses(silent):
    families = Counter(line["family"] for line in silent[0].values())
    # F14 and F19 are mostly loud: see test_loud.py.
    silent_ones = {f"F{number:02}" for number in (*range(1, 14), 15)}
    assert {family for family, count in families.items() if count >= 2} >= silent_ones


def test_wrong_orders_of_the_lessons_own_script(digits):
    for rank in digits:
        assert len(rank) == 11
        for line in rank.values():
            assert (line["found"] or "")[:3] == (line["family"] or ""), line["words"]


def test_a_learners_order_is_audited_where_the_script_trains_on(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    options = {"nproc_per_node": 2, "live": False, "runs": tmp_path / "runs"}
    script = str(LAUNCH / "train.py")
    common = ("--optimizer", "adamw", "--lr", "0.01")
    torchrun(script, "--steps", "4", "--save", "digits.pt", *common, **options).wait()
    order = f"{SCRIPTS / 'learner.py'}:without_moments"
    resumed = ("--steps", "6", "--resume", "digits.pt", "--order", order)
    run = torchrun(script, *resumed, *common, **options).wait()
    assert "first fault: F06 optimizer state, in optimizer state: empty" in run.stdout(0)
    assert "first fault" not in run.stdout(1)
    assert list(run.curve("loss")[1][0]) == [4, 5]
