"""Cells written to files, and tracebacks that name the cells again."""

import pathlib
import subprocess
import sys
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

from loadwrap.jobs.notebook.cells import Piece, cell_line, translate, write_cell, write_with_map


def run_script(path, *arguments):
    return subprocess.run(
        [sys.executable, *arguments, str(path)], capture_output=True, text=True, cwd="/"
    )


def test_lines_of_the_script_are_lines_of_the_cell(tmp_path):
    body = "import sys\n\nprint('ä', sys._getframe().f_lineno)\n"
    script = write_cell(body, tmp_path / "made" / "cells", "cell", label="Cell In[3]")
    assert script.is_absolute()
    assert script.parent == tmp_path / "made" / "cells"
    assert script.read_text(encoding="utf-8").split("\n", 1)[1] == body
    assert run_script(script).stdout == "ä 4\n"  # line 1 of the cell is %%torchrun
    assert cell_line(script, 4) == ("Cell In[3]", 4)
    assert cell_line(script, 400) is None


def test_the_same_body_gives_the_same_file_with_the_newest_number(tmp_path):
    first = write_cell("x = 1", tmp_path, "cell", label="Cell In[3]")
    stamp = first.stat().st_mtime_ns
    assert write_cell("x = 1\r\n", tmp_path, "cell", label="Cell In[9]") == first
    assert first.stat().st_mtime_ns == stamp
    assert cell_line(first, 2) == ("Cell In[9]", 2)
    assert write_cell("x = 2", tmp_path, "cell") != first
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".json", ".py", ".py"]


@pytest.fixture
def script(tmp_path):
    body = """
    import warnings
    def fail(x):
        return 1 / x
    def chained():
        try:
            fail(0)
        except ZeroDivisionError as error:
            raise ValueError("chained") from error
    def group():
        try:
            chained()
        except ValueError as error:
            raise ExceptionGroup("several", [error])
    warnings.warn("careful")
    group()
    """
    folder = tmp_path / "a folder" / "runs" / "cells"
    return write_cell(textwrap.dedent(body), folder, "cell", label="Cell In[7]")


def test_a_chained_exception_in_a_group(script):
    raw = run_script(script).stderr
    assert str(script) in raw
    told = translate(raw)
    assert script.name not in told
    assert "Cell In[7], line 16: UserWarning: careful" in told
    told_lines = told.splitlines()
    assert "  Cell In[7], line 5, in fail" in told_lines
    assert "  |   Cell In[7], line 17, in <module>" in told_lines
    assert "    |   Cell In[7], line 10, in chained" in told_lines
    prefixed = "".join(f"[rank0]: {line}\n" for line in raw.splitlines())
    assert "[rank0]:   |   Cell In[7], line 17, in <module>" in translate(prefixed)


def test_a_syntax_error(tmp_path):
    script = write_cell("x = 1\ny = = 2\n", tmp_path, "cell", label="Cell In[7]")
    told = translate(run_script(script).stderr)
    assert told.startswith("  Cell In[7], line 3\n    y = = 2\n")
    code = f"import traceback\ntry: compile(open({str(script)!r}).read(), {str(script)!r}, 'exec')"
    code += "\nexcept SyntaxError as error: traceback.print_exc(); print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "invalid syntax (Cell In[7], line 3)" in translate(done.stderr + done.stdout)


def test_a_dump_of_faulthandler_and_a_relative_path(tmp_path):
    body = "import faulthandler\ndef f():\n    faulthandler.dump_traceback()\nf()"
    script = write_cell(body, tmp_path / "runs" / "cells", "cell", label="Cell In[2]")
    done = subprocess.run(
        [sys.executable, script.relative_to(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "Cell In[2], line 4 in f" in translate(done.stderr, tmp_path)
    assert translate("invalid syntax (" + script.name + ", line 2)", tmp_path) == (
        "invalid syntax (Cell In[2], line 2)"
    )


def test_what_has_no_map_stays(tmp_path):
    plain = tmp_path / "plain.py"
    plain.write_text("1 / 0\n")
    raw = run_script(plain).stderr
    assert translate(raw) == raw
    (tmp_path / "plain.py.map.json").write_text("{broken")
    assert translate(raw) == raw
    generated = write_with_map(tmp_path, "f", "a\nb\nc\n", [Piece(2, 2, "Cell In[1]", 5)])
    text = f'File "{generated}", line 1, in f\nFile "{generated}", line 2, in f'
    assert translate(text) == f'File "{generated}", line 1, in f\nCell In[1], line 5, in f'


def test_colours_of_newer_pythons(script):
    magenta, reset = "\x1b[35m", "\x1b[0m"
    line = f'File {magenta}"{script}"{reset}, line {magenta}5{reset}, in {magenta}fail{reset}'
    assert translate(line).startswith("Cell In[7], line 5, in")


NOTEBOOK = [
    """
    import subprocess, sys
    from pathlib import Path
    from loadwrap.jobs.notebook.source import as_file
    from loadwrap.jobs.notebook.cells import translate, write_cell
    """,
    """

    LIMIT = 0
    def helper(x):
        return x / LIMIT
    """,
    """
    !true
    def step(x):
        "Divides."
        return helper(x)
    """,
    """
    spec = as_file(step)
    path, _, name = spec.rpartition(":")
    print(Path(path).relative_to(Path.cwd()).parent)
    load = "import runpy, sys; runpy.run_path(sys.argv[1])[sys.argv[2]](1)"
    done = subprocess.run(
        [sys.executable, "-c", load, path, name], capture_output=True, text=True, cwd="/"
    )
    print(translate(done.stderr))
    """,
    """
    script = write_cell("pass\\n1 / 0", "runs/cells", "cell")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    print(translate(done.stderr))
    """,
    """
    step(1)
    """,
]


def test_a_real_kernel(tmp_path, monkeypatch):
    # A kernel that is itself a rank starts no host of warm processes: none is needed here.
    monkeypatch.setenv("RANK", "0")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(textwrap.dedent(text)[1:]) for text in NOTEBOOK]
    client = NotebookClient(
        notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    texts = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    folder, _, told = texts[3].partition("\n")
    assert folder == str(pathlib.Path("runs", "cells"))
    assert "  Cell In[3], line 4, in step\n    return helper(x)\n" in told
    assert "  Cell In[2], line 3, in helper\n    return x / LIMIT\n" in told
    assert "ZeroDivisionError: division by zero" in told
    assert "  Cell In[5], line 3, in <module>\n    1 / 0\n" in texts[4]
    # The same places as in the kernel's own words.
    own = "".join(notebook.cells[5].outputs[0]["traceback"])
    for colour in ("\x1b[0m", "\x1b[32m", "\x1b[36m", "\x1b[39m"):
        own = own.replace(colour, "")
    assert "Cell In[3], line 4, in step" in own
    assert "Cell In[2], line 3, in helper" in own
