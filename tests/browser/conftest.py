"""One JupyterLab and one Chromium for all browser tests; a fresh page for each."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from browser.jupyterlab import Lab, NotebookPage, copy_lessons, running_lab

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
Opener = Callable[[str], NotebookPage]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder, home = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("home")
    copy_lessons(folder)
    with running_lab(folder, home) as server:
        yield server


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"),
            executable_path=program,
            headless=True,
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 1000},
        )
        yield context
        context.close()


@pytest.fixture
def page(
    chromium: BrowserContext, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Page]:
    failed_before = request.session.testsfailed
    page = chromium.new_page()
    yield page
    if request.session.testsfailed > failed_before:
        shot = tmp_path / "at_the_end.png"
        page.screenshot(path=shot)
        print(f"what the browser showed at the end: {shot}")
    page.close()


@pytest.fixture
def opened(lab: Lab, page: Page) -> Opener:
    return lambda notebook: NotebookPage(page, lab, notebook)
