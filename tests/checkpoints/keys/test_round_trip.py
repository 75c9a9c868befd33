"""Random nets in random dresses: the names are restored exactly, or refused with a reason."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from torch import nn

from checkpoints.keys.nets import Dress, dressed, dresses, leaf, nets, numbered
from loadwrap.checkpoints import KeyReport, explain_keys
from loadwrap.checkpoints.keys.explain import explain_names
from loadwrap.checkpoints.keys.rename import KeyRenameError

# LOADWRAP_EXAMPLES=1000 tries more.
EXAMPLES = int(os.environ.get("LOADWRAP_EXAMPLES", "60"))
often = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

CURED = {"fits", "wrapper", "prefix", "subtree", "renamed", "leftovers", "tied"}


def check(
    report: KeyReport, file: dict[str, torch.Tensor], model: nn.Module, truth: dict[str, object]
) -> None:
    """Holds the line and the rename to the truth, or the refusal to a reason."""
    event(report.verdict)
    if not report.fix:
        assert report.verdict not in CURED and str(report).strip()
        with pytest.raises(KeyRenameError, match=r"\w+"):
            report.rename(file)
        return
    names = {"ckpt": file, "model": model}
    exec(report.fix, names)
    same(model.state_dict(), truth, report)
    renamed = report.rename(file, subset=bool(report.other_parts))
    same(renamed, truth, report)
    order = [name for name in file if any(value is file[name] for value in renamed.values())]
    assert [next(n for n in order if file[n] is value) for value in renamed.values()] == order


def same(state: object, truth: dict[str, object], report: KeyReport) -> None:
    assert state.keys() == truth.keys(), f"\n{report}"
    for name, value in truth.items():
        assert torch.equal(state[name], value), f"{name}\n{report}"


@often
@given(st.data())
def test_wrappers_and_prefixes_anywhere_on_both_sides(data: st.DataObject) -> None:
    net = data.draw(nets())
    file_dress = data.draw(dresses(net, prefixed=True))
    model_dress = data.draw(dresses(net, prefixed=not file_dress.prefix))
    values = numbered(net)
    file = {file_dress(name): value for name, value in values.items()}
    truth = {model_dress(name): value for name, value in values.items()}
    model = dressed(net, model_dress)
    report = explain_keys(file, model)
    assert report.fix, f"\n{report}"
    check(report, file, model, truth)


@often
@given(st.data())
def test_names_alone_are_enough(data: st.DataObject) -> None:
    net = data.draw(nets())
    one, two = data.draw(dresses(net, True)), data.draw(dresses(net, False))
    report = explain_names(
        {one(name): None for name in net.state_dict()},
        {two(name): None for name in net.state_dict()},
    )
    assert report.fix, f"\n{report}"
    pairs = report.renaming.pairs
    assert pairs == {one(name): two(name) for name in net.state_dict()}


@often
@given(st.data())
def test_a_net_among_others_is_found_or_refused(data: st.DataObject) -> None:
    net, other = data.draw(nets()), data.draw(nets(2))
    dress = data.draw(dresses(net, prefixed=True))
    values = numbered(net)
    file = {dress(name): value for name, value in values.items()}
    place = data.draw(st.sampled_from(("projector.", "module.projector.", "")))
    for name, value in other.state_dict().items():
        file.setdefault(place + name, torch.full_like(value, -1))
    model = dressed(net, Dress({}))
    check(explain_keys(file, model), file, model, values)


@often
@given(st.data())
def test_a_file_that_lacks_something_is_never_made_to_fit(data: st.DataObject) -> None:
    net = data.draw(nets())
    net.add_module("extra", leaf(0))
    dress = data.draw(dresses(net, prefixed=True))
    values = numbered(net)
    lost = data.draw(st.sampled_from([n for n in values if "num_batches_tracked" not in n]))
    file = {dress(name): value for name, value in values.items() if name != lost}
    model = dressed(net, Dress({}))
    for value in model.state_dict().values():
        value.zero_()
    report = explain_keys(file, model)
    assert not report.fix and not report.matches, f"\n{report}"
    assert report.missing or report.buffers_missing or report.shape_mismatches
    with pytest.raises(KeyRenameError):
        report.rename(file)
    if report.part:
        # What the line for a part does load, it loads to the right place.
        names = {"ckpt": file, "model": model}
        exec(report.part, names)
        for name, value in model.state_dict().items():
            assert torch.equal(value, values[name]) or not value.any(), f"{name}\n{report}"


@often
@given(st.data())
def test_a_child_of_another_name_is_found_or_refused(data: st.DataObject) -> None:
    net = data.draw(nets())
    values = numbered(net)
    place = data.draw(st.sampled_from([name for name, _ in net.named_modules() if name]))
    parent, _, old = place.rpartition(".")
    word = st.sampled_from(("module", "encoder", "trunk", "0", "7", "module.trunk"))
    new = data.draw(word.filter(lambda one: one not in net.get_submodule(parent)._modules))
    start = f"{place}."
    renamed = f"{parent}.{new}." if parent else f"{new}."
    file = {
        renamed + name.removeprefix(start) if name.startswith(start) else name: value
        for name, value in values.items()
    }
    model = dressed(net, Dress({}))
    check(explain_keys(file, model), file, model, values)


@often
@given(st.data())
def test_the_same_under_wrappers_and_a_prefix(data: st.DataObject) -> None:
    net = data.draw(nets())
    values = numbered(net)
    place = data.draw(st.sampled_from([name for name, _ in net.named_modules() if name]))
    new = data.draw(st.sampled_from(("encoder", "trunk.inner", "", "layers.0")))
    dress = data.draw(dresses(net, prefixed=True))
    parent = place.rpartition(".")[0]
    before, after = f"{place}.", ".".join(filter(None, (parent, new, "")))
    moved = {
        name: after + name.removeprefix(before) if name.startswith(before) else name
        for name in values
    }
    assume(len(set(moved.values())) == len(moved))
    file = {dress(moved[name]): value for name, value in values.items()}
    assume(len(file) == len(values))
    model = dressed(net, Dress({}))
    check(explain_keys(file, model), file, model, values)
