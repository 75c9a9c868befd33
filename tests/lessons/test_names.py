"""Every name of torch in a lesson exists in the pinned version, and none of them is deprecated."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from pathlib import Path

import pytest

from lesson_files import LESSONS, ROOT, read

PAGES = [*LESSONS, *sorted((ROOT / "notebooks").glob("*.md"))]
# Names that are shown because they do not exist.
ABSENT = {"torch.nn.DDP"}
# A name that torch gave up, the one that took its place, and since when.
RENAMED = {"broadcast_buffers": ("forward_sync_buffers", "2.13")}


def texts(path: Path) -> list[str]:
    if path.suffix == ".md":
        return [path.read_text(encoding="utf-8")]
    return [cell.source for cell in read(path).cells]


def found(name: str) -> object:
    """Return what a dotted name stands for; raise AttributeError if there is nothing."""
    first, *rest = name.split(".")
    here = importlib.import_module(first)
    for at, part in enumerate(rest, 2):
        if not hasattr(here, part):
            try:
                importlib.import_module(".".join(name.split(".")[:at]))
            except ImportError:
                raise AttributeError(name) from None
        here = getattr(here, part)
    return here


def names_of_torch(text: str) -> set[str]:
    return {name.rstrip(".") for name in re.findall(r"(?<![\w./-])torch(?:\.[A-Za-z_]\w*)+", text)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_name_of_torch_exists(path: Path) -> None:
    for name in {name for text in texts(path) for name in names_of_torch(text)}:
        if name in ABSENT:
            with pytest.raises(AttributeError):
                found(name)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            warnings.simplefilter("error", DeprecationWarning)
            thing = found(name)
        assert not hasattr(thing, "__deprecated__"), f"{name} is deprecated"
        first_lines = (inspect.getdoc(thing) or "")[:300] if callable(thing) else ""
        assert ".. deprecated" not in first_lines, f"{name} is deprecated"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_renamed_argument_has_both_its_names(path: Path) -> None:
    pages = "\n".join(texts(path))
    for old, (new, since) in RENAMED.items():
        if old in pages:
            assert new in pages and since in pages, f"{old} is {new} since torch {since}"


def test_what_is_called_renamed_was() -> None:
    from torch.nn.parallel import DistributedDataParallel

    accepted = inspect.signature(DistributedDataParallel).parameters
    for old, (new, _) in RENAMED.items():
        assert {old, new} <= set(accepted)
    source = inspect.getsource(DistributedDataParallel)
    assert re.search(r"broadcast_buffers.{0,200}deprecated", source, re.S)
