"""Run the lessons again in place and save their outputs, in a form that only changes with them.

`make execute` runs all lessons and solutions, `make execute NB=notebooks/00_….ipynb` one. With
--check nothing runs: it fails if a notebook is not in the form in which this program saves it.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
CELL_TIMEOUT = 600

# What editors and runs leave behind, and no reader needs. Everything else is kept: a lesson's
# own metadata, its tags, a figure's description.
NOTEBOOK_NOISE = ("colab", "papermill", "signature", "toc", "varInspector", "vscode", "widgets")
CELL_NOISE = (
    "ExecuteTime",
    "collapsed",
    "execution",
    "heading_collapsed",
    "hidden",
    "papermill",
    "scrolled",
    "vscode",
)


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream: where a stream was cut depends on timing alone."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            merged.append(output)
    return merged


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Remove from `notebook`, in place, what differs from run to run, and return it."""
    for name in NOTEBOOK_NOISE:
        notebook.metadata.pop(name, None)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        for name in CELL_NOISE:
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
    return notebook


def as_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n"


def read(path: Path) -> NotebookNode:
    # Version 4.5 gives every cell an id, by which a diff finds it.
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def write(path: Path, notebook: NotebookNode) -> None:
    """Replace the file in one step: an interrupted run leaves the old one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(as_text(notebook), encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def execute(path: Path) -> None:
    """Run one notebook in its own folder, as JupyterLab does, and save it.

    Raises:
        SystemExit: a cell failed; the file is as it was.
    """
    notebook = read(path)
    current = 0

    def remember(cell: NotebookNode, cell_index: int) -> None:
        nonlocal current
        current = cell_index

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        on_cell_start=remember,
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        if isinstance(error, CellExecutionError):
            print(error.traceback, file=sys.stderr)
            what = f"raised {error.ename}: {error.evalue}"
        elif isinstance(error, CellTimeoutError):
            what = f"took longer than {CELL_TIMEOUT} s"
        else:
            what = "killed its kernel"
        first_line = (notebook.cells[current].source.strip() or "empty").splitlines()[0]
        sys.exit(f"{shown(path)} is unchanged: its cell {current} ({first_line}) {what}.")
    write(path, normalise(notebook))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def all_notebooks() -> list[Path]:
    folder = ROOT / "notebooks"
    return sorted(folder.glob("*.ipynb")) + sorted(folder.glob("solutions/*.ipynb"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of them")
    parser.add_argument("--check", action="store_true", help="run nothing, only compare the form")
    options = parser.parse_args()

    paths = [path.resolve() for path in options.notebooks] or all_notebooks()
    if not paths:
        sys.exit("There is no notebook in notebooks/.")
    for path in paths:
        if not path.is_file():
            sys.exit(f"There is no notebook {shown(path)}.")
    if options.check:
        wrong = [
            shown(path)
            for path in paths
            if path.read_text(encoding="utf-8") != as_text(normalise(read(path)))
        ]
        if wrong:
            sys.exit(f"Not as `make execute` saves it: {', '.join(wrong)}.")
        return

    # As in the tests: nothing of this terminal decides what a lesson prints.
    for name in ("PYTHONUNBUFFERED", "MPLBACKEND", "JUPYTER_PATH"):
        os.environ.pop(name, None)
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["IPYTHONDIR"] = str(Path(sys.prefix, "ipython"))
    for path in paths:
        start = time.monotonic()
        print(f"{shown(path)} …", end=" ", flush=True)
        execute(path)
        print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
