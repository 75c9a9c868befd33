"""What every test of real jobs needs: a folder of its own, and a plain environment."""

import textwrap
from pathlib import Path

import pytest

from loadwrap import torchrun


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    """A folder of its own; and no PYTHONUNBUFFERED, which would hide output that is held back."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(tmp_path):
    """Writes a script into ``write.folder``, returns its name: ``write("print(1)")``."""

    def writing(text: str, name: str = "script.py") -> str:
        path = Path(tmp_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    writing.folder = tmp_path
    return writing


@pytest.fixture
def launch(write, tmp_path):
    """Writes a script, runs it to its end without a figure, and returns the run."""

    def launching(text: str, *arguments, name: str = "script.py", **options):
        options = {"nproc_per_node": 2, "runs": tmp_path / "runs", **options}
        return torchrun(write(text, name), *arguments, live=False, **options).wait()

    return launching


@pytest.fixture(params=[True, False], ids=["warm", "cold"])
def warm(request):
    """Both ways to start a job."""
    return request.param
