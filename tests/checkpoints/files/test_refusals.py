"""What loading and saving refuse before anything is changed, and in which words."""

import warnings
from contextlib import suppress

import pytest
import torch
from torch import nn

from loadwrap.checkpoints import audit_resume, fingerprint, load_checkpoint, save_checkpoint
from loadwrap.checkpoints.files.errors import CheckpointError, SaveFailed

KINDS = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def trained(kind, steps=1):
    net = nn.Linear(2, 2)
    optimizer = KINDS[kind](net.parameters()) if isinstance(kind, str) else kind(net.parameters())
    for _ in range(steps):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    return net, optimizer


PAIRS = [
    ("Adam", "SGD", 1), ("SGD", "Adam", 1), ("SGD", "Adam", 0), ("RMSprop", "SGD", 1),
    ("Adagrad", "RMSprop", 1), ("Adam", "Adamax", 1), ("Adamax", "NAdam", 1), ("NAdam", "SGD", 0),
]  # fmt: skip


@pytest.mark.parametrize(("then", "now", "steps"), PAIRS)
def test_the_state_of_another_class_of_optimizer_is_refused(tmp_path, then, now, steps):
    net, optimizer = trained(then, steps)
    save_checkpoint(tmp_path / "a.pt", step=1, model=net, optimizer=optimizer)
    other, mine = trained(now)
    before = other.weight.detach().clone()
    with pytest.raises(CheckpointError, match=f"file's optimizer is {then}'s .* one is {now}"):
        load_checkpoint(tmp_path / "a.pt", model=other, optimizer=mine)
    assert torch.equal(other.weight, before)
    with suppress(KeyError):
        mine.load_state_dict(torch.load(tmp_path / "a.pt", weights_only=True)["optimizer"])
    report = audit_resume(tmp_path / "a.pt", model=other, optimizer=mine, show=False)
    assert report.codes["optimizer state"] == "F06 optimizer state"
    assert f"is {then}'s" in report.words("optimizer state")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_class_of_optimizer_is_not_refused(tmp_path, kind):
    for steps in (0, 1):
        net, optimizer = trained(kind, steps)
        save_checkpoint(tmp_path / "a.pt", step=steps, model=net, optimizer=optimizer)
        load_checkpoint(tmp_path / "a.pt", model=net, optimizer=optimizer)
        report = audit_resume(tmp_path / "a.pt", model=net, optimizer=optimizer, show=False)
        assert report.verdict("optimizer state") == "ok"
        optimizer.step()


def test_files_of_older_versions_and_of_subclasses_are_of_the_same_class(tmp_path):
    class Mine(torch.optim.AdamW):
        pass

    net, optimizer = trained("Adam")
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    for key in ("decoupled_weight_decay", "foreach", "fused", "capturable", "maximize", "amsgrad"):
        del state["optimizer"]["param_groups"][0][key]
    torch.save(state, tmp_path / "a.pt")
    for kind in (Mine, torch.optim.Adam, torch.optim.AdamW):
        other, mine = trained(kind)
        assert (
            "optimizer" in load_checkpoint(tmp_path / "a.pt", model=other, optimizer=mine).restored
        )
        mine.step()


CYCLE: dict = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"path": b"a.pt"}, r"path=b'a.pt': a str or a pathlib.Path"),
        ({"path": None}, r"path=None"),
        ({"step": 1.5}, r"step=1.5: step is a whole number, 0 or more"),
        ({"step": "3"}, r"step='3'"),
        ({"step": -1}, r"step=-1: step is 0 or more"),
        ({"keep": "2"}, r"keep='2': keep is a whole number, 1 or more"),
        ({"keep": 1.5}, r"keep=1.5"),
        ({"keep": True}, r"keep=True"),
        ({"keep": 0}, r"keep=0: keep is 1 or more"),
        ({"epoch": "a"}, r"epoch='a': epoch is a whole number"),
        ({"extra": [1]}, r"extra is a list: give a dict"),
        ({"extra": CYCLE}, r"extra holds itself"),
    ],
)
def test_a_bad_argument_of_a_save_is_one_sentence(tmp_path, monkeypatch, bad, words):
    monkeypatch.chdir(tmp_path)
    options = {"path": "a.pt", "step": 1, "model": nn.Linear(2, 2), **bad}
    with pytest.raises(SaveFailed, match=f"^nothing was saved: .*{words}") as said:
        save_checkpoint(options.pop("path"), **options)
    assert "\n" not in str(said.value)
    assert not list(tmp_path.iterdir())


def test_whole_numbers_of_other_libraries_are_taken(tmp_path):
    save_checkpoint(tmp_path, step=torch.tensor(3), keep=1, epoch=None, model=nn.Linear(2, 2))
    assert (tmp_path / "step_00000003.pt").exists()


def test_a_fingerprint_is_of_a_tensor():
    for thing in (None, [1.0], "x"):
        with pytest.raises(TypeError, match=f"not of a {type(thing).__name__}"):
            fingerprint(thing)
