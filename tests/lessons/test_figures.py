"""The figures that explain: what they say, that they say it the same each time, and bad input."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from loadwrap.curves.display import Picture
from loadwrap.lessons import plot_holders, plot_names, plot_sent
from loadwrap.lessons.holders import _Sheet
from loadwrap.lessons.sent import in_words
from loadwrap.lessons.shapes import FILLS, letter

WRONG = {
    "built": {0: 11, 1: 12},
    "wrapped": {0: 11, 1: 11},
    "rank 0 loads": {0: 99, 1: 11},
}
RIGHT = {
    "built": {0: 11, 1: 12},
    "every rank loads": {0: 99, 1: 99},
    "wrapped": {0: 99, 1: 99},
}
BOTH = {"wrap, then load": WRONG, "load, then wrap": RIGHT}


def pixels(picture: Picture) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(picture.png())).convert("RGB"))


def sound(picture: Picture) -> None:
    """Every figure: 720 wide, sharp, white round the edge, and small enough to commit."""
    seen = pixels(picture)
    assert seen.shape[1] == 1440 and seen.shape[0] <= 2 * 900
    assert (seen[:2] == 255).all() and (seen[:, :8] == 255).all() and (seen[:, -4:] == 255).all()
    assert len(picture.png()) < 60_000


# --- Who holds which weights ------------------------------------------------------------------


def test_the_words_of_the_holders_say_what_the_boxes_say() -> None:
    picture = plot_holders(BOTH, names={99: "checkpoint"})
    assert repr(picture) == "<figure of who holds which weights: wrap, then load, load, then wrap>"
    assert picture._alt == (
        "Who holds which weights, by moment. wrap, then load. "
        "built: rank 0 A, rank 1 B; wrapped: rank 0 A, rank 1 A; "
        "rank 0 loads: rank 0 C (checkpoint), rank 1 A. load, then wrap. "
        "built: rank 0 A, rank 1 B; every rank loads: rank 0 C (checkpoint), "
        "rank 1 C (checkpoint); wrapped: rank 0 C (checkpoint), rank 1 C (checkpoint)."
    )
    sound(picture)


def test_equal_values_look_equal_in_every_panel_and_others_do_not() -> None:
    looks = _Sheet(BOTH, {99: "checkpoint"}).looks
    assert len({look.letter for look in looks.values()}) == 3
    assert len({look.fill for look in looks.values()}) == 3
    again = _Sheet({"load, then wrap": RIGHT}, {99: "checkpoint"}).looks
    assert again[99].fill == looks[99].fill == FILLS[0], "what has a name has the first colour"


def test_a_box_differs_from_the_next_in_grey_too() -> None:
    parts = [[int(fill[i : i + 2], 16) for i in (1, 3, 5)] for fill in FILLS]
    shades = [float(np.dot([0.30, 0.59, 0.11], rgb)) for rgb in parts]
    assert all(abs(a - b) > 25 for a, b in zip(shades, shades[1:], strict=False))


@pytest.mark.parametrize(
    ("orders", "ranks", "moments"),
    [(1, 1, 1), (1, 8, 2), (2, 4, 4), (3, 4, 5), (4, 4, 3), (5, 2, 9)],
)
def test_any_number_of_panels_ranks_and_moments_fits(orders: int, ranks: int, moments: int) -> None:
    held = {
        f"an order with a rather long title, number {o}": {
            f"moment {m} of the run": {r: (o * r, m) for r in range(ranks)} for m in range(moments)
        }
        for o in range(orders)
    }
    picture = plot_holders(held, names={(0, 0): "what rank 0 held before anything was loaded"})
    seen = pixels(picture)
    assert seen.shape[1] == 1440 and (seen[:, -4:] == 255).all() and (seen[:2] == 255).all()


def test_a_rank_that_holds_nothing_is_an_empty_place() -> None:
    picture = plot_holders({"load": {"built": {0: 1, 1: None}, "loaded": {0: 1, 1: 1}}})
    assert "built: rank 0 A, rank 1 nothing" in picture._alt


def test_letters_go_on_after_z() -> None:
    assert [letter(n) for n in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        ([], "needs {order"),
        ({}, "at least one order"),
        ({"a": {}}, "'a' has no moment"),
        ({"a": {0: 1}}, "0 of 'a' is no dict of ranks"),
        ({"a": {"built": {}}}, "'built' of 'a' is no dict of ranks"),
        ({"a": {"built": {"0": 1}}}, "'0' in 'built' is no rank"),
        ({"a": {"built": {0: [1]}}}, "rank 0 holds in 'built' is a list"),
    ],
)
def test_bad_holders_are_refused_in_a_sentence(orders: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        plot_holders(orders)
    assert says in str(caught.value) and str(caught.value).endswith(".")


# --- What wrapping sends ------------------------------------------------------------------------


def test_the_words_of_what_is_sent_have_the_bytes() -> None:
    picture = plot_sent({"parameters": 4_200_000, "buffers": 132, "optimizer state": 0}, ranks=4)
    assert repr(picture) == "<figure of what rank 0 sends: parameters, buffers, optimizer state>"
    assert picture._alt == (
        "What rank 0 sends to ranks 1 to 3. parameters: 4.2 MB to each; "
        "buffers: 132 bytes to each; optimizer state: not sent, each keeps its own."
    )
    sound(picture)


def test_what_is_not_sent_looks_otherwise() -> None:
    sent, kept = plot_sent({"buffers": 20}, ranks=2), plot_sent({"buffers": 0}, ranks=2)
    right = slice(440, None)  # beyond rank 0's box
    assert (pixels(sent)[:, right] != 255).sum() > 3 * (pixels(kept)[:, right] != 255).sum()


@pytest.mark.parametrize("ranks", [2, 3, 8, 9, 64])
def test_any_number_of_ranks_fits(ranks: int) -> None:
    sound(plot_sent({"parameters": 10, "buffers": 1, "optimizer state": 0}, ranks))


def test_bytes_are_said_as_people_say_them() -> None:
    assert [in_words(n) for n in (0, 1, 999, 1000, 99_940, 123_456, 2_000_000_000)] == [
        "0 bytes", "1 byte", "999 bytes", "1.0 kB", "99.9 kB", "123 kB", "2.0 GB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "ranks", "says"),
    [
        ({}, 4, "at least one part"),
        ([1], 4, "needs bytes by part"),
        ({"buffers": 1.5}, 4, "bytes of 'buffers' must be an int"),
        ({"buffers": -1}, 4, "bytes of 'buffers' cannot be -1"),
        ({"buffers": 1}, 1, "at least 2 ranks"),
        ({"buffers": 1}, "4", "ranks must be an int"),
    ],
)
def test_bad_parts_are_refused_in_a_sentence(parts: Any, ranks: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        plot_sent(parts, ranks)
    assert says in str(caught.value) and str(caught.value).endswith(".")


# --- Where a key's segments come from -----------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(3, 2)  # a net's own child may be called so
        self.norm = nn.BatchNorm1d(2)


def test_every_name_of_a_state_dict_can_be_drawn() -> None:
    for model in (Net(), nn.DataParallel(Net()), torch.compile(nn.DataParallel(Net()))):
        for key, tensor in model.state_dict().items():
            picture = plot_names(model, key)
            shape = "×".join(map(str, tensor.shape))
            assert picture._alt.rstrip(".").endswith(shape) and repr(picture).endswith(f"{key}>")
    sound(picture)


def test_only_what_a_wrapper_added_is_said_to_be_added() -> None:
    bare = plot_names(Net(), "module.weight")._alt
    assert "added" not in bare
    wrapped = plot_names(torch.compile(nn.DataParallel(Net())), "_orig_mod.module.module.weight")
    assert wrapped._alt == (
        "The name _orig_mod.module.module.weight, attribute by attribute: the OptimizedModule has "
        "_orig_mod, a DataParallel (added by OptimizedModule), which has module, a Net (added by "
        "DataParallel), which has module, a Linear, which has weight, a Parameter 2×3."
    )


def test_wrapped_is_told_from_bare_by_colour() -> None:
    def vermilion(picture: Picture) -> int:
        return int((pixels(picture) == (0xD5, 0x5E, 0x00)).all(axis=2).sum())

    assert vermilion(plot_names(Net(), "module.weight")) == 0
    assert vermilion(plot_names(nn.DataParallel(Net()), "module.norm.bias")) > 1000


@pytest.mark.parametrize(
    ("model", "key", "says"),
    [
        (nn.DataParallel(Net()), "norm.bias", "the DataParallel has module, not 'norm'."),
        (torch.compile(Net()), "norm.bias", "the OptimizedModule has _orig_mod, not 'norm'."),
        (Net(), "norm.bais", "the BatchNorm1d at 'norm' has weight, bias, running_mean"),
        (Net(), "norm", "the BatchNorm1d at 'norm' has weight, bias"),
        (Net(), "norm.bias.x", "the Parameter at 'norm.bias' is a tensor, and holds no 'x'."),
        (Net(), "", "the Net has module, norm."),
        (Net(), None, "needs a key"),
        ({"norm.bias": 1}, "norm.bias", "needs a module, not a dict."),
    ],
)
def test_a_way_that_leads_nowhere_is_told(model: Any, key: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        plot_names(model, key)
    assert says in str(caught.value) and str(caught.value).endswith(".")


# --- All ------------------------------------------------------------------------------------------


def test_the_same_figure_is_the_same_bytes() -> None:
    assert plot_holders(BOTH).png() == plot_holders(BOTH).png()
    assert plot_sent({"buffers": 1}).png() == plot_sent({"buffers": 1}).png()
    assert plot_names(Net(), "norm.bias").png() == plot_names(Net(), "norm.bias").png()


def test_importing_the_lessons_imports_nothing_heavy() -> None:
    code = (
        "import sys, loadwrap.lessons as lessons; 'plot_names' in dir(lessons); "
        "print(sorted({'torch', 'numpy', 'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
