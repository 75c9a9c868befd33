"""A lesson shows the real lines, and finds the real file."""

import inspect
from pathlib import Path

import pytest

from loadwrap.lessons import launch_file, show


def test_the_file_is_found_from_the_lessons_and_their_solutions(beside_the_lessons, monkeypatch):
    assert launch_file("train.py") == "../launch/train.py"
    (beside_the_lessons / "solutions").mkdir()
    monkeypatch.chdir(beside_the_lessons / "solutions")
    assert launch_file("train.py") == "../../launch/train.py"
    with pytest.raises(FileNotFoundError, match=r"no launch/other\.py"):
        launch_file("other.py")


def test_what_is_shown_is_what_stands_there(tmp_path: Path, monkeypatch) -> None:
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    show(inspect.getsourcefile(show), "show", "launch_file")
    text = shown[0].data
    assert text.startswith("```python\n# sources.py\ndef show(")
    for function in (show, launch_file):
        assert inspect.getsource(function).rstrip() in text


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match=r"defines no nothing; it has launch_file, show"):
        show(inspect.getsourcefile(show), "nothing")
