"""A JupyterLab of the test's own, as `make lab` starts it, and a page that shows one notebook."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
START_S = 60
SETTINGS = {
    # Cells outside the window stay in the page, where a test can see them.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/themes": {},
}

# Notes every picture that appears in an output, and whether its cell was running then.
WATCH_PICTURES = """
window.pictures = [];
const seen = new WeakMap();
const note = (image) => {
    if (seen.get(image) === image.src || !image.src.startsWith('data:image/png')) return;
    seen.set(image, image.src);
    const cell = image.closest('.jp-CodeCell');
    if (!cell) return;
    const prompt = cell.querySelector('.jp-InputPrompt').textContent;
    const index = [...document.querySelectorAll('.jp-Cell')].indexOf(cell);
    window.pictures.push({cell: index, running: prompt.includes('*'), picture: image.src});
};
const look = () => document.querySelectorAll('.jp-OutputArea img').forEach(note);
new MutationObserver(look).observe(
    document.body, {subtree: true, childList: true, attributes: true, attributeFilter: ['src']}
);
"""


class Lab:
    """A running server.

    Attributes:
        folder: Its root folder, a copy of the lessons without outputs.
        address: Where it listens.
        token: What it asks for.
    """

    def __init__(self, folder: Path, address: str, token: str) -> None:
        self.folder = folder
        self.address = address
        self.token = token

    def url(self, notebook: str) -> str:
        # A workspace of the tests' own: to reset it closes nobody's tabs.
        return f"{self.address}/lab/workspaces/test/tree/{notebook}?token={self.token}&reset"


def copy_lessons(folder: Path) -> None:
    """Copies what a learner has, with every output cleared: what appears later is new."""
    kept_out = shutil.ignore_patterns("runs", "checkpoints", "__pycache__", ".ipynb_checkpoints")
    for name in ("notebooks", "launch"):
        shutil.copytree(ROOT / name, folder / name, ignore=kept_out)
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "lab.py", folder / "tools")
    for path in folder.glob("notebooks/*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, path)
    first = folder / "notebooks" / "00_run_your_first_distributed_job.ipynb"
    if not first.exists():  # lab.py opens it, and says so if it is not there
        write_notebook(first, "print('here')")


def write_notebook(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    nbformat.write(notebook, path)


@contextmanager
def running_lab(folder: Path, home: Path, theme: str = "JupyterLab Light") -> Iterator[Lab]:
    """Starts ``tools/lab.py`` in a copy of the project; ends the server and its kernels."""
    settings = home / ".jupyter" / "lab" / "user-settings" / "@jupyterlab"
    for name, value in (SETTINGS | {"apputils-extension/themes": {"theme": theme}}).items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "PYTEST")) and name not in ("PYTHONUNBUFFERED", "RANK")
    }
    env |= {"HOME": str(home), "PORT": str(free_port()), "BROWSER": "true"}
    env["JUPYTER_RUNTIME_DIR"] = str(home / "runtime")
    log = (home / "lab.log").open("w+")
    server = subprocess.Popen(
        [sys.executable, str(folder / "tools" / "lab.py")],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed = ""

        def address() -> re.Match[str] | None:
            nonlocal printed
            printed = (home / "lab.log").read_text()
            assert server.poll() is None, f"JupyterLab ended:\n{printed}"
            return re.search(r"(http://127\.0\.0\.1:\d+)/\S*token=(\w+)", printed)

        found = wait_for(address, START_S)
        assert found, f"JupyterLab printed no address in {START_S} s:\n{printed}"
        yield Lab(folder, found[1], found[2])
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
        log.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """Asks again and again, until the answer is true or the time is over; returns the answer."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def alive(pids: list[int]) -> list[int]:
    """Returns those of the processes that still run; a zombie does not."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


class NotebookPage:
    """One notebook in JupyterLab, with what a learner does there."""

    def __init__(self, page: Page, lab: Lab, notebook: str) -> None:
        self.page = page
        self.path = lab.folder / notebook
        page.goto(lab.url(notebook))
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.panel.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=START_S * 1000)
        # Before it has a kernel the notebook is idle, too; running a cell then asks for one.
        page.locator(".jp-StatusBar-Widget", has_text="(ipykernel) | Idle").wait_for(
            timeout=START_S * 1000
        )
        self.wait_until_idle(START_S)
        page.evaluate(WATCH_PICTURES)

    def wait_until_idle(self, seconds: float) -> None:
        """Waits until the kernel has nothing to do and no cell waits for it."""
        indicator = self.panel.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        indicator.wait_for(timeout=seconds * 1000)

    def run_all(self) -> None:
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def cell(self, index: int) -> Any:
        return self.panel.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def wait_until_running(self, index: int, seconds: float = 30) -> None:
        prompt = self.cell(index).locator(".jp-InputPrompt", has_text="[*]")
        prompt.wait_for(timeout=seconds * 1000)

    def wait_until_run(self, seconds: float) -> None:
        """Waits until no cell runs or waits to run."""

        def nothing_waits() -> bool:
            return not self.panel.locator(".jp-InputPrompt", has_text="[*]").count()

        assert wait_for(nothing_waits, seconds), f"cells still run after {seconds:.0f} s"

    def interrupt(self) -> None:
        self.panel.locator('[data-jp-item-name="interrupt"] jp-button').click()

    def restart(self) -> None:
        self.panel.locator('[data-jp-item-name="restart"] jp-button').click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def outputs(self, index: int) -> str:
        return str(self.cell(index).locator(".jp-OutputArea").inner_text())

    def pictures(self) -> list[dict[str, Any]]:
        """Returns every picture that appeared: its cell, whether that was running, its source."""
        found = self.page.evaluate("window.pictures")
        assert isinstance(found, list)
        return found

    def saved(self) -> nbformat.NotebookNode:
        """Saves the notebook as a learner does and returns what is in its file."""
        before = self.path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        assert wait_for(lambda: self.path.stat().st_mtime_ns != before, 20), "it was not saved"
        return wait_for(lambda: _whole(self.path), 5)


def _whole(path: Path) -> nbformat.NotebookNode | None:
    """Returns the notebook, or None while JupyterLab is still writing it."""
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.reader.NotJSONError):
        return None
