"""launch/train.py, as a file to launch and as a module to look into."""

import importlib
import sys
from pathlib import Path

import pytest

from loadwrap import Run, torchrun

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(monkeypatch):
    """The module, imported as a rank imports it: with its own folder first on the path."""
    monkeypatch.syspath_prepend(str(LAUNCH))
    for name in ("train", "orders"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("train")
    for name in ("train", "orders"):
        sys.modules.pop(name, None)


@pytest.fixture
def train(tmp_path):
    """Runs the script to its end and returns the run."""

    def training(*options, ranks: int = 2, **more) -> Run:
        more = {"live": False, "runs": tmp_path / "runs", **more}
        return torchrun(LAUNCH / "train.py", *options, nproc_per_node=ranks, **more).wait()

    return training
