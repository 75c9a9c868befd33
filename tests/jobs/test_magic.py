"""``%%torchrun``: how its line is read, and what it does in a real kernel."""

import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

from loadwrap import LaunchError
from loadwrap.magic import parse


@pytest.mark.parametrize(
    ("line", "options", "ours", "arguments"),
    [
        ("", {}, {}, []),
        ("--nproc-per-node 4", {"nproc_per_node": "4"}, {}, []),
        ("--nproc_per_node=4", {"nproc_per_node": "4"}, {}, []),
        ("--standalone --max-restarts 1", {"standalone": True, "max_restarts": "1"}, {}, []),
        ("--as bad --quiet --cold", {}, {"as": "bad", "quiet": "", "cold": ""}, []),
        ("--background --metric acc", {}, {"background": "", "metric": "acc"}, []),
        ("--stall-timeout 5", {}, {"stall-timeout": "5"}, []),
        (r"--pattern 'loss (?P<loss>\S+)'", {}, {"pattern": r"loss (?P<loss>\S+)"}, []),
        ("--role x -- --nproc-per-node 4 'a b'", {"role": "x"}, {},
         ["--nproc-per-node", "4", "a b"]),
        ("--rdzv-conf timeout=3,read_timeout=4", {"rdzv_conf": "timeout=3,read_timeout=4"}, {}, []),
        ("-- --as x", {}, {}, ["--as", "x"]),
        ("--nproc-per-node -1", {"nproc_per_node": "-1"}, {}, []),
    ],
)  # fmt: skip
def test_the_line_is_read_as_written(line, options, ours, arguments):
    found = parse(line)
    assert (found.torchrun, found.ours, found.arguments) == (options, ours, arguments)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train.py", "does not know what train.py is for"),
        ("--nproc-per-node", "--nproc-per-node needs a value"),
        ("--nproc-per-node --quiet", "--nproc-per-node needs a value"),
        ("--as", "--as needs a value"),
        ("--as 'x", "cannot be read: No closing quotation"),
        ("--as --quiet", "--as needs a value"),
        ("--quiet=yes", "--quiet takes no value"),
    ],
)
def test_a_bad_line_is_one_sentence(line, sentence):
    with pytest.raises(LaunchError) as told:
        parse(line)
    assert sentence in str(told.value)
    assert str(told.value)[-1] == "."


class Notebook:
    """Runs cells in a real kernel; each gives what it printed, or the error it ended with."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *cells):
        """Returns one text for each cell."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in cells]
        )
        client = NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name="python3")
        client.resources = {"metadata": {"path": str(self.folder)}}
        client.execute()
        return ["".join(map(self._text, cell.outputs)) for cell in notebook.cells]

    def _text(self, output):
        if output.output_type == "stream":
            return output.text
        if output.output_type == "error":
            return "\n".join(output.traceback)
        return output.data.get("text/plain", "") + "\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The outputs of one notebook, by name of the cell: one kernel serves all tests below."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    cells = {
        "import": "import loadwrap",
        "plain": """
            %%torchrun --nproc-per-node 2 --quiet
            import os, sys
            print(os.environ["RANK"], sys.argv[1:])
            """,
        "its run": "print(run.state, run.ranks, run.stdout(1).strip())",
        "named": """
            %%torchrun --nproc-per-node 2 --as mine --quiet --max-restarts 0 -- --lr 0.1 'a b'
            import sys
            from loadwrap import log
            from beside import double
            log(1, loss=double(2.0))
            print(sys.argv[1:], __name__)
            """,
        "its curve": "print(mine.curve('loss')[1], mine.stdout(0))",
        "shown": """
            %%torchrun --nproc-per-node 2
            from loadwrap import log
            for step in range(3):
                log(step, loss=1.0)
            """,
        "shown without a metric": """
            %%torchrun --nproc-per-node 2
            print("only words")
            """,
        "background": """
            %%torchrun --background --as later
            import os, time
            while not os.path.exists("go"):
                time.sleep(0.01)
            """,
        "it goes on": "print(later.state)\nopen('go', 'w').close()\nprint(later.wait().state)",
        "cold": """
            %%torchrun --cold --quiet --as cold
            from beside import double
            print(double(4))
            """,
        "it was cold": "import json; print(json.loads((cold.directory / 'run.json').read_text())"
        "['warm'], cold.stdout(0).strip())",
        "raises": """
            %%torchrun --nproc-per-node 2 --as failed
            import os, time

            def bad():
                return {}["x"]

            if os.environ["RANK"] == "1":
                bad()
            time.sleep(600)
            """,
        "its failed run": "print(failed.state, failed.command)",
        "no such option": "%%torchrun --nproc 4\nprint(1)",
        "a file": "%%torchrun train.py\nprint(1)",
        "a module": "%%torchrun -m x\nprint(1)",
        "no name": "%%torchrun --as 1x\nprint(1)",
        "no time": "%%torchrun --stall-timeout soon\nprint(1)",
        "a syntax error": "%%torchrun --quiet\nx = 1\nif x\n    pass",
        "help": "%%torchrun --help\nprint(1)",
        "help in one line": "%torchrun --help",
        "one line": "%torchrun --nproc-per-node 2",
        "hosts": "from loadwrap.jobs import client\nprint(client._host.ready)",
    }
    printed = Notebook(folder).run(*cells.values())
    return dict(zip(cells, printed, strict=True))


def test_the_cell_is_the_script(told):
    assert told["plain"] == ""
    assert told["its run"] == "finished (0, 1) 1 []\n"
    assert told["its curve"].startswith("(array([1]), array([4.]))")
    assert "['--lr', '0.1', 'a b'] __main__" in told["its curve"]


def test_a_shown_run_ends_with_its_figure_in_words(told):
    first, *_ = told["shown"].splitlines()
    assert first.startswith("$ PYTHONPATH=. torchrun --standalone --nproc-per-node 2 runs/cells/")
    assert "loss" in told["shown"].splitlines()[-1]
    assert "[rank 0] only words\n[rank 1] only words\n" in told["shown without a metric"]


def test_a_background_run_returns_at_once(told):
    assert told["background"] == ""
    assert told["it goes on"] == "running\nfinished\n"


def test_a_cold_cell_imports_what_lies_beside_it_too(told):
    assert told["it was cold"] == "False 8\n"


def test_a_traceback_names_the_cells_own_lines(told):
    text = told["raises"]
    assert "JobFailed: Rank 1 of 2 failed first: KeyError, exit code 1." in text
    assert "Cell In[12], line 8, in <module>" in text
    assert "Cell In[12], line 5, in bad" in text
    assert text.rstrip().endswith("KeyError: 'x'")
    assert "loadwrap/run.py" not in text and "elastic" not in text
    assert told["its failed run"].startswith("failed PYTHONPATH=. torchrun ")


def test_bad_cells_are_one_sentence(told):
    assert told["no such option"] == (
        "LaunchError: torchrun has no option nproc=; did you mean nproc_per_node=?"
    )
    assert told["a file"].startswith("LaunchError: %%torchrun does not know what train.py is for")
    assert told["a module"].startswith("LaunchError: %%torchrun runs the cell itself")
    assert told["no name"] == "LaunchError: --as needs the name of a variable, not 1x."
    assert "needs a number of seconds, not soon" in told["no time"]
    assert "in line 3: expected ':', at `if x`." in told["a syntax error"]
    assert told["one line"].startswith("LaunchError: %torchrun has no script")
    for name in ("no such option", "a file", "a module", "no name", "no time", "a syntax error"):
        assert len(told[name].splitlines()) == 1, name
    assert told["help"].startswith("%%torchrun [torchrun's options]")
    assert told["help in one line"] == told["help"]
    assert told["hosts"] == "True\n"
