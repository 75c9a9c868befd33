"""--fix: the renamed weights, bit for bit, written whole or not at all."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import torch

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.fix import write_weights
from loadwrap.checkpoints.formats import CheckpointError
from loadwrap.doctor import main


def good(tmp_path: Path, net: torch.nn.Module | None = None) -> str:
    return str(layouts.save(tmp_path, (net or layouts.Net()).state_dict(), "good.pt"))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("wrap", ["module.", "_orig_mod.module.", "net.", ""])
def test_the_weights_come_out_under_the_models_names(
    tmp_path: Path, wrap: str, zipped: bool
) -> None:
    net = layouts.Net()
    wrapped = torch.nn.Module()
    inner = wrapped
    for name in wrap.split(".")[:-1]:
        inner.add_module(name, torch.nn.Module())
        inner = getattr(inner, name)
    state = net.state_dict()
    saved = copy.copy(state)
    saved.clear()
    saved.update(layouts.under(wrap, state))
    saved._metadata = {
        f"{wrap}{name}".rstrip("."): version for name, version in state._metadata.items()
    }
    content = {"model": saved, "args": object, "epoch": 3}
    path = layouts.save(tmp_path, content, _use_new_zipfile_serialization=zipped)
    out = tmp_path / "out.pt"
    assert main([str(path), "--like", good(tmp_path), "--fix", str(out)]) == 0
    loaded = torch.load(out)
    assert list(loaded) == list(state)
    for name, value in state.items():
        assert torch.equal(loaded[name], value)
        assert loaded[name].dtype == value.dtype
    assert loaded._metadata["bn1"] == {"version": 2}
    layouts.Net().load_state_dict(loaded)


def test_views_strides_types_and_ties_survive(tmp_path: Path) -> None:
    base = torch.randn(6, 8)
    state = {
        "a": base.t()[1:3],
        "b": base,
        "tied": base,
        "half": torch.randn(5).half(),
        "brain": torch.randn(5).bfloat16(),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "bool": torch.tensor([True, False]),
        "odd": torch.arange(9, dtype=torch.uint8)[1:],
    }
    path = layouts.save(tmp_path, {"model": {f"module.{k}.w": v for k, v in state.items()}})
    target = layouts.save(tmp_path, {f"{k}.w": v for k, v in state.items()}, "good.pt")
    out = tmp_path / "out.pt"
    assert main([str(path), "--like", str(target), "--fix", str(out)]) == 0
    loaded = torch.load(out)
    for name, value in state.items():
        assert torch.equal(loaded[f"{name}.w"], value), name
    pointer = loaded["b.w"].untyped_storage().data_ptr()
    assert loaded["tied.w"].untyped_storage().data_ptr() == pointer
    assert loaded["a.w"].untyped_storage().data_ptr() == pointer


def test_a_pickled_module_gives_its_weights_without_its_class(tmp_path: Path) -> None:
    path = layouts.yolo(tmp_path)
    out = tmp_path / "weights.pt"
    assert main([str(path), "--like", good(tmp_path), "--fix", str(out)]) == 0
    expected = torch.load(path, weights_only=False)["model"].state_dict()
    loaded = torch.load(out)
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())


def test_from_and_to_safetensors(tmp_path: Path) -> None:
    place = layouts.shards(tmp_path)
    first, second = tmp_path / "one.safetensors", tmp_path / "two.pt"
    assert main([str(place), "--like", good(tmp_path), "--fix", str(first)]) == 0
    assert main([str(first), "--like", good(tmp_path), "--fix", str(second)]) == 0
    from loadwrap.checkpoints.doctoring.fix import read_weights
    from loadwrap.checkpoints.formats import open_checkpoint

    found = open_checkpoint(place)
    expected = read_weights(found, found.tree, None)
    loaded = torch.load(second)
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())


def test_nothing_is_written_when_no_rename_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layouts.mae(tmp_path)
    out = tmp_path / "out.pt"
    assert main([str(path), "--like", good(tmp_path), "--fix", str(out)]) == 2  # args is refused
    assert not out.exists()
    assert "--fix wrote nothing" in capsys.readouterr().out


def test_other_networks_are_left_behind_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = layouts.moco(tmp_path), tmp_path / "out.pt"
    arguments = [str(path), "--like", good(tmp_path), "--fix", str(out)]
    assert main(arguments) == 1
    assert "--subset" in capsys.readouterr().out
    assert not out.exists()
    assert main([*arguments, "--subset"]) == 0
    saved = torch.load(path)["state_dict"]
    for name, value in torch.load(out).items():
        assert torch.equal(value, saved[f"module.encoder_q.{name}"])


def test_an_existing_file_is_kept_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = layouts.imagenet(tmp_path), tmp_path / "out.pt"
    out.write_text("precious")
    arguments = [str(path), "--like", good(tmp_path), "--fix", str(out)]
    assert main(arguments) == 2
    assert "--force replaces it" in capsys.readouterr().out
    assert out.read_text() == "precious"
    assert main([*arguments, "--force"]) == 0
    assert torch.load(out)


@pytest.mark.parametrize("link", ["itself", "symlink", "hard link", "--like"])
def test_a_file_that_is_read_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    path, target = layouts.everything(tmp_path), good(tmp_path)
    out = tmp_path / "out.pt"
    if link == "symlink":
        out.symlink_to(path)
    elif link == "hard link":
        os.link(path, out)
    else:
        out = Path(target) if link == "--like" else path
    before = out.read_bytes()
    arguments = [str(path), "--like", target, "--fix", str(out), "--force"]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "name another file for OUT" in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert out.read_bytes() == before


def test_a_file_of_a_folder_that_is_read_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = layouts.shards(tmp_path)
    shard = min(place.glob("*.safetensors"))
    before = shard.read_bytes()
    arguments = [str(place), "--like", good(tmp_path), "--fix", str(shard), "--force"]
    assert main(arguments) == 2
    assert "name another file for OUT" in capsys.readouterr().err
    assert shard.read_bytes() == before


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Odd:
        def __reduce__(self) -> str:
            raise RuntimeError("disk full")

    out = tmp_path / "out.pt"
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_weights({"a": Odd()}, out)
    assert os.listdir(tmp_path) == []
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_weights({"a": torch.ones(1)}, tmp_path / "absent" / "out.pt")
