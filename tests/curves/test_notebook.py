"""What a notebook gets: one picture a cell, always of the same kinds of data."""

import base64
import io
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

CELLS = [
    """
    from loadwrap import plot_runs
    from loadwrap.curves.figure import LiveFigure
    from loadwrap.curves.store import Curves

    curves = Curves()
    live = LiveFigure("loss", "train.py", resumed_at=2)
    live.draw(curves, "starting")
    for step in range(12):
        curves.extend(0, "loss", [step], [1 / (step + 1)])
        curves.extend(1, "loss", [step], [2 / (step + 1)])
        live.draw(curves, "running")
    live.finish(curves, "finished")
    """,
    'plot_runs({"a": curves, "b": curves})',
    'kept = plot_runs({"a": curves})',
    "kept",
    "kept; print(len(kept.png()) > 0)",
]


@pytest.fixture(scope="module")
def executed():
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(source)) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    updates: list[dict] = []

    class Client(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data"):
                updates.append({"cell": cell_index, **msg})
            return super().process_message(msg, cell, cell_index)

    Client(notebook, timeout=120, kernel_name="python3").execute()
    return notebook, updates


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (0, "<figure of loss>"),
        (1, "<figure of loss: a, b>"),
        (2, "<figure of loss: a>"),
        (3, "<figure of loss: a>"),
    ],
)
def test_a_cell_has_one_picture_and_nothing_else(executed, cell, words):
    (output,) = executed[0].cells[cell].outputs
    assert output.output_type == "display_data"
    assert set(output.data) == {"image/png", "text/plain"}
    assert output.data["text/plain"] == words
    about = output.metadata["image/png"]
    image = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
    assert image.size == (2 * about["width"], 2 * about["height"])
    assert "loss" in about["alt"]


def test_a_picture_that_is_no_result_is_not_shown_again(executed):
    assert [output.output_type for output in executed[0].cells[4].outputs] == ["stream"]


def test_a_live_figure_is_one_display_drawn_anew(executed):
    mine = [message for message in executed[1] if message["cell"] == 0]
    assert [m["msg_type"] for m in mine] == ["display_data"] + ["update_display_data"] * 13
    assert len({m["content"]["transient"]["display_id"] for m in mine}) == 1
    assert {m["content"]["data"]["text/plain"] for m in mine} == {"<figure of loss>"}
    assert {frozenset(m["content"]["data"]) for m in mine} == {
        frozenset({"image/png", "text/plain"})
    }
    assert len({m["content"]["data"]["image/png"] for m in mine}) == 14
