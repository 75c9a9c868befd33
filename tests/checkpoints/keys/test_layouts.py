"""Every layout that people have: entry, prefix and remedy named rightly, the line executed."""

from __future__ import annotations

import copy

import pytest
import torch

from checkpoints.keys.layouts import Layout, layouts
from loadwrap.checkpoints import KeyReport, explain_keys
from loadwrap.checkpoints.keys.rename import KeyRenameError

LAYOUTS = {layout.name: layout for layout in layouts()}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    return copy.deepcopy(LAYOUTS[request.param])


def test_is_named_rightly(layout: Layout) -> None:
    report = explain_keys(layout.checkpoint, layout.model)
    found = (
        report.verdict,
        report.container,
        report.prefix,
        report.added_prefix,
        report.checkpoint_wrappers,
        report.model_wrappers,
    )
    expected = (
        layout.verdict,
        layout.container,
        layout.prefix,
        layout.added,
        layout.wrappers,
        layout.model_wrappers,
    )
    assert found == expected, f"\n{report}"
    for words in layout.said:
        assert words in str(report), f"\n{report}"
    for line in str(report).splitlines()[1:]:
        assert line.startswith("  ") and line[13:].strip() == line[13:] != "", line
    if layout.fix is not None:
        assert report.fix == layout.fix


def test_the_line_and_rename_fill_the_whole_model(layout: Layout) -> None:
    report = explain_keys(layout.checkpoint, layout.model)
    if not layout.truth:
        assert not report.fix
        with pytest.raises(KeyRenameError):
            report.rename(layout.checkpoint)
        return
    assert holds(by_line(report, layout), layout), f"\n{report}"
    model = copy.deepcopy(layout.model)
    renamed = report.rename(layout.checkpoint, subset=bool(report.other_parts))
    model.load_state_dict(renamed)
    assert holds(model, layout)


def by_line(report: KeyReport, layout: Layout) -> torch.nn.Module:
    assert "\n" not in report.fix and report.fix in str(report)
    names = {"ckpt": layout.checkpoint, "model": copy.deepcopy(layout.model)}
    exec(report.fix, names)
    return names["model"]


def holds(model: torch.nn.Module, layout: Layout) -> bool:
    state = model.state_dict()
    return state.keys() == layout.truth.keys() and all(
        torch.equal(state[name], value) for name, value in layout.truth.items()
    )
