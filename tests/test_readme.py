"""What the README prints works as it prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import loadwrap

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]


def test_the_start_is_two_commands() -> None:
    start = README.split("## Start")[1].split("\n## ")[0]
    first, second = [code for _, code in re.findall(r"```(\w+)\n(.*?)```", start, re.DOTALL)][:2]
    assert [line.split("  ")[0] for line in first.splitlines()] == ["make lab", "make test"]
    assert second.startswith("make demo")


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z][a-z-]+)", README):
        if target in {"it", "takes"}:
            continue
        assert re.search(rf"^[a-z ]*\b{target}\b[a-z ]*:", makefile, re.MULTILINE), target


def test_every_name_imported_exists() -> None:
    for code in PYTHON:
        compile(code, "README.md", "exec")
        for names in re.findall(r"from loadwrap import (.*)", code):
            for name in names.split("#")[0].split(","):
                assert getattr(loadwrap, name.strip())


def test_every_file_linked_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.base_module = nn.Linear(2, 2)


def test_the_cure_of_the_prefix_works_as_printed(tmp_path: Path) -> None:
    cure = next(code for code in PYTHON if "removeprefix" in code)
    saved, model, path = Net(), Net(), tmp_path / "last.pt"
    torch.save({"model": {f"module.{k}": v for k, v in saved.state_dict().items()}}, path)
    exec(cure, {"torch": torch, "model": model, "path": path})
    for name, value in saved.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


def test_the_cure_of_the_prefix_stays_strict(tmp_path: Path) -> None:
    cure = next(code for code in PYTHON if "removeprefix" in code)
    path = tmp_path / "last.pt"
    torch.save({"model": {"module.other": torch.zeros(1)}}, path)
    with pytest.raises(RuntimeError, match="Missing key"):
        exec(cure, {"torch": torch, "model": Net(), "path": path})


def test_a_jump_is_seen_by_the_lines_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(
        "import os\nfrom loadwrap import log\n"
        "rank = int(os.environ['RANK'])\n"
        "for step in (60, 61): log(step, loss=0.5 if rank == 0 else 2.25)\n"
    )
    monkeypatch.chdir(tmp_path)
    exec(next(code for code in PYTHON if "--resume" in code), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == ["0 60 0.5", "1 60 2.25", "2 60 2.25", "3 60 2.25"]
