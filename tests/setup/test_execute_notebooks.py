"""`make execute` saves notebooks in one form, whole or not at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "execute_notebooks.py"


def tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    return subprocess.run(
        [sys.executable, TOOL, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def save(path: Path, *cells: nbformat.NotebookNode, **metadata: object) -> Path:
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), path)
    return path


def test_it_runs_in_the_notebooks_folder_and_saves_one_form(tmp_path: Path) -> None:
    (tmp_path / "neighbour.txt").write_text("seen")
    script = (
        "import sys, time\n"
        "for i in range(3):\n    print(i, flush=True); time.sleep(0.05)\n"
        "print(open('neighbour.txt').read())"
    )
    figure = (
        "from IPython.display import display\n"
        "handle = display('first', display_id=True)\n"
        "handle.update('last')"
    )
    environment = "import os\nprint(os.environ.get('PYTHONUNBUFFERED'))"
    kept = {"tags": ["kept"], "jupyter": {"outputs_hidden": True}}
    path = save(
        tmp_path / "lesson.ipynb",
        new_code_cell(script, metadata={"ExecuteTime": {"x": 1}, **kept}),
        new_code_cell(figure),
        new_code_cell(environment),
        new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}),
        new_code_cell("'the end'"),
        lesson={"minutes": 20},
        widgets={"state": {}},
    )
    result = tool(path)
    assert result.returncode == 0, result.stderr

    notebook = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4, 5]
    first, second, third, fourth, _ = notebook.cells
    assert [dict(o) for o in first.outputs] == [
        {"output_type": "stream", "name": "stdout", "text": "0\n1\n2\nseen\n"}
    ]
    assert [o.data["text/plain"] for o in second.outputs] == ["'last'"]
    assert third.outputs[0].text == "None\n"
    assert fourth.outputs[0].ename == "ZeroDivisionError"
    assert first.metadata == kept
    assert notebook.metadata["lesson"] == {"minutes": 20}
    assert "widgets" not in notebook.metadata
    assert "version" not in notebook.metadata["language_info"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lesson.ipynb", "neighbour.txt"]

    once = path.read_bytes()
    assert tool("--check", path).returncode == 0
    assert tool(path).returncode == 0
    assert path.read_bytes() == once


def test_a_failing_cell_is_named_and_the_file_stays(tmp_path: Path) -> None:
    path = save(
        tmp_path / "lesson.ipynb",
        new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}),
        new_code_cell("[][7]"),
    )
    before = path.read_bytes()
    result = tool(path)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.endswith("its cell 1 ([][7]) raised IndexError: list index out of range.")
    assert path.read_bytes() == before


def test_the_check_finds_a_notebook_in_another_form(tmp_path: Path) -> None:
    path = save(tmp_path / "lesson.ipynb", new_code_cell("1"), widgets={})
    result = tool("--check", path)
    assert result.returncode == 1
    assert "lesson.ipynb" in result.stderr
    assert json.loads(path.read_text())["metadata"] == {"widgets": {}}


def test_the_committed_notebooks_have_this_form() -> None:
    result = tool("--check")
    assert result.returncode == 0, result.stderr
