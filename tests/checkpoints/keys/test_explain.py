"""What is said about wrappers, ties, buffers, types and files that do not fit."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from checkpoints.keys.layouts import GPT, Holder, ResNet, fresh, trapped, under
from loadwrap.checkpoints import explain_keys
from loadwrap.checkpoints.formats import CheckpointError
from loadwrap.checkpoints.keys.explain import explain_names
from loadwrap.checkpoints.keys.rename import KeyRenameError

DDP = nn.parallel.DistributedDataParallel


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """A process group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def compiled_child(net: nn.Module) -> nn.Module:
    net.layer1 = torch.compile(net.layer1)
    return net


REAL = {
    "bare": lambda net: net,
    "DDP": DDP,
    "DDP of DDP": lambda net: DDP(DDP(net)),
    "compile of DDP": lambda net: torch.compile(DDP(net)),
    "DDP of compile": lambda net: DDP(torch.compile(net)),
    "DDP of a compiled child": lambda net: DDP(compiled_child(net)),
    "DataParallel": nn.DataParallel,
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("loaded", REAL)
@pytest.mark.parametrize("saved", REAL)
def test_real_wrappers_on_either_side(saved: str, loaded: str) -> None:
    ckpt = REAL[saved](fresh(ResNet, 1)).state_dict()
    values = list(fresh(ResNet, 1).state_dict().values())
    model = REAL[loaded](fresh(ResNet, 2))
    report = explain_keys(ckpt, model)
    assert report.matches == (list(ckpt) == list(model.state_dict()))
    exec(report.fix, {"ckpt": ckpt, "model": model})
    assert all(map(torch.equal, model.state_dict().values(), values))
    renamed = report.rename(ckpt)
    assert list(renamed) == list(model.state_dict())
    assert set(renamed._metadata) <= set(model.state_dict()._metadata)
    for module, version in renamed._metadata.items():
        assert version == model.state_dict()._metadata[module]


@pytest.mark.usefixtures("alone")
def test_wrappers_of_both_sides_are_named() -> None:
    ckpt = DDP(torch.compile(fresh(ResNet, 1))).state_dict()
    report = explain_keys(ckpt, torch.compile(DDP(fresh(ResNet, 2))))
    assert report.checkpoint_wrappers == ("module", "_orig_mod")
    assert report.model_wrappers == ("_orig_mod", "module")
    same = explain_keys(ckpt, DDP(torch.compile(fresh(ResNet, 2))))
    assert same.matches and same.checkpoint_wrappers == ("module", "_orig_mod")
    assert "both sides have `module.`" in str(same)


def test_a_child_called_module_is_not_taken_for_a_wrapper() -> None:
    only = Holder(module=nn.Linear(2, 2))
    report = explain_keys(only.state_dict(), Holder(module=nn.Linear(2, 2)))
    assert report.matches and report.checkpoint_wrappers == report.model_wrappers == ()


@pytest.mark.parametrize("start", ["", "module.", "_orig_mod.module.", "module.module."])
def test_the_trap_of_replace(start: str) -> None:
    """`key.replace("module.", "")` destroys this net's names, however the file was saved."""
    net = fresh(trapped, 1)
    ckpt = under(start, net.state_dict())
    replaced = {key.replace("module.", "") for key in ckpt}
    assert replaced != set(net.state_dict())
    model = fresh(trapped, 2)
    exec(explain_keys(ckpt, model).fix, {"ckpt": ckpt, "model": model})
    assert all(map(torch.equal, model.state_dict().values(), net.state_dict().values()))


def test_activation_checkpointing_in_an_average_of_named_parameters() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    net = fresh(lambda: Holder(a=nn.Linear(2, 3), b=nn.Linear(3, 1)), 1)
    net.a = checkpoint_wrapper(net.a)
    average = {name: value.detach().clone() for name, value in net.named_parameters()}
    assert "a._checkpoint_wrapped_module.weight" in average
    report = explain_keys(average, net)
    assert report.checkpoint_wrappers == ("_checkpoint_wrapped_module",)
    net.load_state_dict(report.rename(average))


def test_nothing_matches_is_said_loudly_whatever_strict_says() -> None:
    net = nn.Linear(2, 2)
    report = explain_keys({"gain.x": torch.zeros(5), "gain.y": torch.zeros(7)}, net)
    assert (report.verdict, report.fix, report.part, report.after) == ("nothing", "", "", (0, 2))
    assert str(report).startswith("NOTHING MATCHES")
    assert "initial values" in str(report).splitlines()[0]
    with pytest.raises(KeyRenameError, match="NOTHING MATCHES"):
        report.rename({"gain.x": torch.zeros(5), "gain.y": torch.zeros(7)})


def test_where_nothing_matches_no_counter_is_told_to_be_as_it_was() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    assert "note" not in str(explain_keys({"stem.weight": torch.zeros(2)}, model))
    kept = {name: value for name, value in model.state_dict().items() if "tracked" not in name}
    assert "0.num_batches_tracked: not in the file" in str(explain_keys(kept, model))


def test_a_part_is_called_a_part_and_listed() -> None:
    ckpt = under("module.", fresh(lambda: ResNet(None), 1).state_dict())
    model = fresh(ResNet, 2)
    report = explain_keys(ckpt, model)
    assert (report.verdict, report.fix, report.after) == ("partial", "", (12, 14))
    assert report.missing == ("fc.weight", "fc.bias") and report.buffers_missing == ()
    before = model.fc.weight.clone()
    exec(report.part, {"ckpt": ckpt, "model": model})
    assert torch.equal(model.conv1.weight, ckpt["module.conv1.weight"])
    assert torch.equal(model.fc.weight, before)
    with pytest.raises(KeyRenameError, match="ONLY A PART"):
        report.rename(ckpt)


def test_buffers_are_counted_apart() -> None:
    net = fresh(ResNet, 1)
    ckpt = dict(net.named_parameters())
    report = explain_keys(ckpt, fresh(ResNet, 2))
    assert report.verdict == "buffers" and not report.fix and not report.missing
    assert report.buffers_missing == ("bn1.running_mean", "bn1.running_var")
    assert "BUFFERS ARE MISSING" in str(report) and "2 buffers" in str(report)


@pytest.mark.parametrize("versions", [True, False])
def test_a_counter_that_torch_fills_itself_is_not_missing(versions: bool) -> None:
    ckpt = fresh(ResNet, 1).state_dict()
    del ckpt["bn1.num_batches_tracked"]
    if not versions:
        ckpt = OrderedDict(ckpt.items())
    model = fresh(ResNet, 2)
    report = explain_keys(ckpt, model)
    assert report.matches is not versions
    if versions:
        with pytest.raises(RuntimeError, match="num_batches_tracked"):
            model.load_state_dict(ckpt)
        assert report.verdict == "buffers" and "COUNTERS" in str(report)
    else:
        model.load_state_dict(ckpt)
        assert "num_batches_tracked" in str(report)


def test_shapes_are_both_told() -> None:
    report = explain_keys(fresh(lambda: ResNet(7), 1).state_dict(), fresh(ResNet, 2))
    assert report.verdict == "shapes" and report.fix == ""
    assert report.shape_mismatches == (("fc.weight", (7, 8), (5, 8)), ("fc.bias", (7,), (5,)))
    assert "fc.weight: 7 x 8 in the file, 5 x 8 in the model" in str(report)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64, torch.bool])
def test_types_need_not_match_and_are_told(dtype: torch.dtype) -> None:
    net = nn.Linear(2, 2)
    ckpt = {name: value.to(dtype) for name, value in net.state_dict().items()}
    net.load_state_dict(ckpt)  # strict, and without a word
    report = explain_keys(ckpt, net)
    name = str(dtype).removeprefix("torch.")
    assert report.matches and report.dtypes == {(name, "float32"): 2}
    assert f"2 from {name} to float32" in str(report)


def test_tied_in_the_model_but_torn_in_the_file() -> None:
    ckpt = fresh(lambda: GPT(tied=False), 1).state_dict()
    report = explain_keys(ckpt, fresh(GPT, 2))
    assert report.matches and "the one that is loaded last wins" in str(report)
    assert "last wins" not in str(explain_keys(fresh(GPT, 1).state_dict(), fresh(GPT, 2)))


def test_a_double_in_the_file_is_left_out_with_the_reason() -> None:
    ckpt = fresh(GPT, 1).state_dict()
    model = Holder(transformer=fresh(GPT, 2).transformer)
    for state in (ckpt, {name: value.clone() for name, value in ckpt.items()}):
        report = explain_keys(state, model)
        assert report.verdict == "leftovers"
        assert report.left_out == {"lm_head.weight": "the same tensor as transformer.wte.weight"}
        exec(report.fix, {"ckpt": state, "model": model})


def test_equal_constants_are_not_taken_for_doubles() -> None:
    ckpt = {"a.weight": torch.zeros(2, 2), "a.bias": torch.zeros(2), "b.weight": torch.zeros(2, 2)}
    report = explain_keys(ckpt, Holder(a=nn.Linear(2, 2)))
    assert report.verdict == "extra" and report.unexpected == ("b.weight",)


def test_the_whole_dict_with_numbers_beside_the_weights() -> None:
    net = nn.Linear(2, 2)
    ckpt = {"epoch": 3, **net.state_dict(), "lr": 0.1}
    report = explain_keys(ckpt, net)
    assert report.verdict == "leftovers" and "epoch, lr" in str(report)
    exec(report.fix, {"ckpt": ckpt, "model": net})
    assert list(report.rename(ckpt)) == ["weight", "bias"]


def test_children_saved_apart_are_put_together() -> None:
    net = fresh(lambda: Holder(encoder=nn.Linear(2, 3), decoder=nn.Linear(3, 2)), 1)
    ckpt = {
        "encoder": under("module.", net.encoder.state_dict()),
        "decoder": net.decoder.state_dict(),
        "epoch": 3,
    }
    model = fresh(lambda: Holder(encoder=nn.Linear(2, 3), decoder=nn.Linear(3, 2)), 2)
    report = explain_keys(ckpt, model)
    exec(report.fix, {"ckpt": ckpt, "model": model})
    assert all(map(torch.equal, model.state_dict().values(), net.state_dict().values()))
    model.load_state_dict(report.rename(ckpt))


def test_equal_blocks_with_shifted_numbers_are_refused() -> None:
    """Layers 0 to 2 against 1 to 3: two names agree, and any order would fit."""
    one = {f"layers.{i}.weight": torch.full((2, 2), float(i)) for i in range(3)}
    two = {f"layers.{i}.weight": torch.zeros(2, 2) for i in range(1, 4)}
    report = explain_keys(one, two)
    assert report.verdict == "partial" and not report.fix and not report.part
    assert "more than one way" in str(report)


def test_two_equal_blocks_under_new_words_are_refused() -> None:
    one = {"query.weight": torch.zeros(2, 2), "key.weight": torch.ones(2, 2)}
    report = explain_keys(one, {"q.weight": torch.zeros(2, 2), "k.weight": torch.zeros(2, 2)})
    assert not report.fix and "more than one way" in str(report)


def test_words_are_not_exchanged_where_shapes_are_unknown() -> None:
    assert explain_names({"fc.weight": (2, 3)}, {"head.weight": (2, 3)}).verdict == "renamed"
    assert explain_names({"fc.weight": None}, {"head.weight": None}).fix == ""
    chunked = explain_names({"blocks.0.3.w": None}, {"blocks.3.w": None})
    assert chunked.verdict == "renamed"


def test_two_parts_that_fit_are_refused_by_name() -> None:
    net = nn.Linear(2, 2)
    ckpt = {**under("first.", net.state_dict()), **under("second.", net.state_dict())}
    report = explain_keys(ckpt, net)
    assert report.verdict == "ambiguous" and not report.fix and not report.part
    assert "these would all fit: `first.`, `second.`. Say which one you mean" in str(report)


def test_two_wrapped_copies_are_not_mapped_onto_one() -> None:
    net = nn.Linear(2, 2)
    ckpt = {**under("module.", net.state_dict()), **under("_orig_mod.", net.state_dict())}
    report = explain_keys(ckpt, net)
    assert report.verdict == "ambiguous" and not report.fix and not report.part
    inside = {
        **under("a.module.", net.state_dict()),
        **under("a._orig_mod.", {"weight": torch.ones(2, 2)}),
    }
    report = explain_keys(inside, Holder(a=net))
    assert not report.fix and not report.part
    assert "two names become one" in str(report)
    with pytest.raises(KeyRenameError):
        report.rename(inside)


def test_entries_beside_the_weights_are_listed() -> None:
    net = nn.Linear(2, 2)
    report = explain_keys({"epoch": 3, "model": net.state_dict(), "optimizer": {}}, net)
    assert report.beside == ("epoch", "optimizer")
    assert 'ckpt["model"]: 2 tensors; beside it epoch, optimizer' in str(report)


def test_models_of_every_kind_can_be_asked() -> None:
    net = nn.Linear(2, 2)
    state = net.state_dict()
    assert explain_keys(state, state).matches
    assert explain_keys(state, {"weight": (2, 2), "bias": torch.Size([2])}).matches
    assert explain_keys(state, {"weight": None, "bias": None}).matches
    with torch.device("meta"):
        assert explain_keys(state, nn.Linear(2, 2)).matches
    assert explain_keys(state, nn.LazyLinear(2)).matches
    assert explain_keys(state, nn.ReLU()).verdict == "no model"
    assert explain_keys({}, net).verdict == "empty"
    assert explain_keys(net, net).fix == "model.load_state_dict(ckpt.state_dict())"
    with pytest.raises(TypeError, match="nn.Module or a mapping"):
        explain_keys(state, 3)
    with pytest.raises(TypeError, match="state dict"):
        explain_keys(3, net)


def test_shows_its_lines_in_a_notebook_and_a_short_repr() -> None:
    from IPython.lib.pretty import pretty

    report = explain_keys(nn.Linear(2, 2).state_dict(), nn.Linear(2, 2))
    assert pretty(report) == str(report)
    assert repr(report) == "<KeyReport fits: 2 of 2 tensors match>"


def test_nothing_is_changed() -> None:
    ckpt = {"model": under("module.", fresh(ResNet, 1).state_dict())}
    before, names = copy.deepcopy(ckpt), list(ckpt["model"])
    model = fresh(ResNet, 2)
    state = copy.deepcopy(model.state_dict())
    explain_keys(ckpt, model).rename(ckpt)
    assert list(ckpt["model"]) == names
    assert all(map(torch.equal, ckpt["model"].values(), before["model"].values()))
    assert all(map(torch.equal, model.state_dict().values(), state.values()))


@pytest.mark.parametrize("beside", [{"epoch": 3}, {"args": Namespace(lr=0.1)}])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_path_is_read_by_its_headers(tmp_path, beside, zipped) -> None:  # type: ignore[no-untyped-def]
    net, path = fresh(ResNet, 1), tmp_path / "it's last.pt"
    ckpt = {"state_dict": under("module.", net.state_dict()), **beside}
    torch.save(ckpt, path, _use_new_zipfile_serialization=zipped)
    model = fresh(ResNet, 2)
    report = explain_keys(path, model)
    opening = next(line.split(None, 1)[1] for line in str(report).splitlines() if "open" in line)
    names = {"torch": torch, "model": model}
    exec(opening, names)
    exec(report.fix, names)
    assert all(map(torch.equal, model.state_dict().values(), net.state_dict().values()))
    assert list(report.rename(names["ckpt"])) == list(model.state_dict())


def test_a_pickled_module_in_a_path_is_not_executed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    torch.save({"model": fresh(ResNet, 1).half(), "ema": None}, tmp_path / "yolo.pt")
    report = explain_keys(tmp_path / "yolo.pt", fresh(ResNet, 2))
    assert report.matches and report.container == "model"
    assert 'ckpt["model"].state_dict()' in report.fix
    assert "torch.load refuses" in str(report) and "ResNet" in str(report)
    assert "torch.load(" not in str(report)


def test_a_torn_file_is_one_sentence(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "torn.pt"
    torch.save(fresh(ResNet, 1).state_dict(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError):
        explain_keys(path, fresh(ResNet, 2))
