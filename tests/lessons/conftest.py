"""A folder in which a lesson's cells run as they do in notebooks/."""

import os
from pathlib import Path

import pytest

from lesson_files import ROOT


@pytest.fixture
def beside_the_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder from which launch/ is found as it is from notebooks/, and works in it."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    os.symlink(ROOT / "launch", tmp_path / "launch")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path / "notebooks"
