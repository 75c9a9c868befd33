"""Lesson 01 in JupyterLab: the figure grows while its cell runs, and the lesson reaches its end."""

from collections.abc import Callable

import pytest

from browser.jupyterlab import Lab, NotebookPage

LESSON = "notebooks/01_reproduce_the_loss_spike.ipynb"


@pytest.mark.timeout(180)
def test_the_figure_changes_while_the_cell_runs(
    lab: Lab, opened: Callable[[str], NotebookPage]
) -> None:
    notebook = opened(LESSON)
    assert not notebook.pictures()
    notebook.run_all()
    notebook.wait_until_run(120)

    running: dict[int, set[str]] = {}
    for picture in notebook.pictures():
        if picture["running"]:
            running.setdefault(picture["cell"], set()).add(picture["picture"])
    # The first source is the figure's appearance; each further one is a change.
    changes = {cell: len(sources) - 1 for cell, sources in running.items()}
    assert max(changes.values(), default=0) >= 3, changes

    cells = [cell for cell in notebook.saved().cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells if cell.source.strip())
    errors = [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert not errors
    assert notebook.page.locator(".Toastify__toast").count() == 0  # no news, no question
    assert notebook.page.locator(".jp-Dialog").count() == 0
