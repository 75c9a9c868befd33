"""Folders of every framework: named, checked for what is missing, and explained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from checkpoints.doctor import layouts
from loadwrap.checkpoints.formats import CheckpointError, open_checkpoint


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_are_one_checkpoint(tmp_path: Path, suffix: str) -> None:
    found = open_checkpoint(layouts.shards(tmp_path, suffix))
    assert found.kind == "hf-sharded"
    assert {k: t.shape for k, t in found.tree.items()} == {
        k: tuple(v.shape) for k, v in layouts.Net().state_dict().items()
    }
    assert not found.problems
    storages = [tensor.storage for tensor in found.tree.values()]
    assert len(set(storages)) == len(storages)
    assert all(found.locate(storage) is not None for storage in storages)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    place = layouts.shards(tmp_path)
    (place / "model-00002-of-00002.safetensors").unlink()
    problems = open_checkpoint(place).problems
    assert problems == ["1 of 2 shards missing: model-00002-of-00002.safetensors (8 tensors)."]


def test_a_torn_shard_is_named(tmp_path: Path) -> None:
    place = layouts.shards(tmp_path)
    file = place / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert "model-00001-of-00002.safetensors is cut" in open_checkpoint(place).problems[0]


def test_an_index_of_other_shards_is_named(tmp_path: Path) -> None:
    place = layouts.shards(tmp_path)
    index = place / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["new.weight"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    assert "new.weight" in open_checkpoint(place).problems[0]


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", ""])
def test_an_index_does_not_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    place = layouts.shards(tmp_path)
    layouts.write_safetensors(tmp_path / "outside.safetensors", {"a": torch.ones(1)})
    index = {"weight_map": {"a": name}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "missing" in open_checkpoint(place).problems[0]


@pytest.mark.parametrize("text", ["", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none(tmp_path: Path, text: str) -> None:
    place = layouts.shards(tmp_path)
    (place / "model.safetensors.index.json").write_text(text)
    assert "no index of shards" in refused(place)


def test_a_trainer_folder(tmp_path: Path) -> None:
    place = layouts.trainer_folder(tmp_path)
    found = open_checkpoint(place)
    assert found.kind == "hf-folder"
    assert set(found.contents) == {"model", "optimizer", "scheduler", "rng", "step"}
    (place / "optimizer.pt").write_bytes(b"")
    assert "optimizer.pt is empty" in open_checkpoint(place).problems[0]


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_checkpoint(tmp_path: Path) -> None:
    net, optimizer, _ = layouts.trained()
    content = {"model": net.state_dict(), "optim": optimizer.state_dict(), "step": 7}
    dcp.save(content, checkpoint_id=tmp_path / "step_7", no_dist=True)
    place = tmp_path / "step_7"
    found = open_checkpoint(place)
    assert found.kind == "dcp"
    assert not found.problems
    assert {k: t.shape for k, t in found.tree["model"].items()} == {
        k: tuple(v.shape) for k, v in net.state_dict().items()
    }
    assert found.tree["model"]["fc.weight"].dtype == "float32"
    data = place / "__0_0.distcp"
    data.write_bytes(data.read_bytes()[:-500])
    assert "cut short: __0_0.distcp" in open_checkpoint(place).problems[0]
    data.unlink()
    assert "1 of 1 data file missing: __0_0.distcp" in open_checkpoint(place).problems[0]
    shutil.copy(place / ".metadata", place / "__0_0.distcp")
    (place / ".metadata").unlink()
    assert "the save did not finish" in refused(place)
    (place / ".metadata").write_bytes(b"")
    assert "the save did not finish" in refused(place)
    (place / ".metadata").write_bytes(b"\x80\x04N.")
    assert "not one of torch.distributed.checkpoint" in refused(place)


def test_deepspeed(tmp_path: Path) -> None:
    place = layouts.deepspeed(tmp_path)
    found = open_checkpoint(place)
    assert found.kind == "deepspeed"
    assert found.path.name == "global_step300"
    assert any('ckpt["module"] (a key, not a prefix)' in note for note in found.notes)
    (place / "global_step300" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    assert "1 of 2 optimizer shards missing, rank 1's" in open_checkpoint(place).problems[0]
    shutil.copytree(place / "global_step300", place / "global_step1000")
    assert any("global_step1000 is newer" in note for note in open_checkpoint(place).notes)
    (place / "latest").write_text("global_step5000")
    assert "which is not there (there is global_step1000, global_step300)" in refused(place)
    (place / "latest").write_text("../../etc")
    assert "which is not there" in refused(place)
    (place / "global_step300" / "mp_rank_00_model_states.pt").unlink()
    (place / "latest").write_text("global_step300")
    assert "without their mp_rank_*_model_states.pt" in refused(place)


def test_megatron(tmp_path: Path) -> None:
    place = layouts.megatron(tmp_path)
    found = open_checkpoint(place)
    assert found.kind == "megatron"
    assert "iter_0000100" in str(found.path)
    (place / "iter_0000100" / "mp_rank_01" / "model_optim_rng.pt").unlink()
    assert "1 rank without its file: mp_rank_01" in open_checkpoint(place).problems[0]
    (place / "latest_checkpointed_iteration.txt").write_text("250\n")
    assert "names iteration 250, which is not there (there is iter_0000100)" in refused(place)


def test_a_folder_of_checkpoints(tmp_path: Path) -> None:
    layouts.save(tmp_path, {"a": torch.ones(1)}, "iter-960000.pt")
    assert open_checkpoint(tmp_path).path.name == "iter-960000.pt"
    layouts.save(tmp_path, {"a": torch.ones(1)}, "iter-1080000.pt")
    assert "2 checkpoints (iter-1080000.pt, iter-960000.pt): name one" in refused(tmp_path)
    empty = tmp_path / "below"
    layouts.megatron(empty / "one")
    layouts.deepspeed(empty / "two")
    assert "no checkpoint in it" in refused(tmp_path / "below")
    assert "1 checkpoint folder" in refused(empty / "one")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.txt").write_text("x")
    assert "no checkpoint in it (it holds a.txt)" in refused(tmp_path / "logs")
