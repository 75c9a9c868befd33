"""A rename keeps order and versions, and does nothing at all rather than half of it."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from checkpoints.keys.layouts import Holder, ResNet, fresh, under
from loadwrap.checkpoints import explain_keys
from loadwrap.checkpoints.keys.rename import KeyRenameError, Renaming, rename_metadata


def test_two_onto_one_is_refused_by_name() -> None:
    renaming = Renaming({"module.weight": "weight", "base.weight": "weight"})
    weights = {"module.weight": torch.zeros(1), "base.weight": torch.ones(1)}
    with pytest.raises(KeyRenameError, match=r"module\.weight and base\.weight .* weight"):
        renaming(weights)


def test_a_tensor_that_was_not_explained_is_refused() -> None:
    net = nn.Linear(2, 2)
    ckpt = under("module.", net.state_dict())
    report = explain_keys(ckpt, net)
    with pytest.raises(KeyRenameError, match=r"module\.other was not there"):
        report.rename({**ckpt, "module.other": torch.zeros(1)})
    del ckpt["module.bias"]
    with pytest.raises(KeyRenameError, match=r"module\.bias is gone"):
        report.rename(ckpt)


def test_other_parts_are_left_behind_only_with_consent() -> None:
    net = nn.Linear(2, 2)
    ckpt = {**under("encoder.", net.state_dict()), "decoder.weight": torch.zeros(3, 3)}
    report = explain_keys(ckpt, net)
    with pytest.raises(KeyRenameError, match=r"decoder\.weight.*subset=True"):
        report.rename(ckpt)
    assert list(report.rename(ckpt, subset=True)) == ["weight", "bias"]


def test_the_whole_checkpoint_or_its_weights() -> None:
    net = Holder(model=nn.Linear(2, 2))
    ckpt = {"model": under("module.", net.state_dict()), "epoch": 3}
    report = explain_keys(ckpt, net)
    assert list(report.rename(ckpt)) == list(report.rename(ckpt["model"])) == list(net.state_dict())


def test_order_is_the_files() -> None:
    net = nn.Linear(2, 2)
    ckpt = OrderedDict(reversed(under("module.", net.state_dict()).items()))
    assert list(explain_keys(ckpt, net).rename(ckpt)) == ["bias", "weight"]


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_versions_move_with_the_modules(wrap) -> None:  # type: ignore[no-untyped-def]
    """Without its version a batch norm takes the file for an old one, and an old one for new."""
    net = fresh(ResNet, 1)
    net.relu = nn.ReLU()  # a module without tensors has a version too
    ckpt = wrap(net).state_dict()
    model = fresh(ResNet, 2)
    model.relu = nn.ReLU()
    renamed = explain_keys(ckpt, model).rename(ckpt)
    assert dict(renamed._metadata) == dict(model.state_dict()._metadata)
    assert renamed._metadata["bn1"]["version"] == 2


def test_versions_inside_a_renamed_block() -> None:
    versions = OrderedDict({"": {"version": 1}, "blocks": {"version": 1}})
    versions |= {"blocks.0": {"version": 1}, "blocks.0.0": {"version": 1}}
    versions |= {"blocks.0.0.norm": {"version": 2}}
    moved = rename_metadata(versions, {"blocks.0.0.norm.weight": "blocks.0.norm.weight"})
    assert moved["blocks.0.norm"] == {"version": 2}
    assert moved["blocks.0"] == {"version": 1}


def test_a_result_loads_an_old_batch_norm_rightly() -> None:
    """A file of before version 2 has no counters; strict loading adds them, if it knows."""
    ckpt = nn.DataParallel(fresh(ResNet, 1)).state_dict()
    del ckpt["module.bn1.num_batches_tracked"]
    for version in ckpt._metadata.values():
        version["version"] = 1
    model = fresh(ResNet, 2)
    report = explain_keys(ckpt, model)
    assert report.fix
    model.load_state_dict(report.rename(ckpt))
