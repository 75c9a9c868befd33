"""The site: a page for every notebook, nothing lost on the way, no dead link, no network needed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from built_site import build
from lesson_files import ROOT

LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
NOTEBOOKS = [*LESSONS, *sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("build")
    built = build(ROOT, into)
    assert built.returncode == 0, built.stdout + built.stderr
    return into / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BeautifulSoup]:
    return {
        path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in sorted(site.rglob("*.html"))
    }


def cells_of(site: Path, notebook: Path) -> list[dict[str, Any]]:
    """The notebook's cells, as they were when the site was built."""
    laid_out = site.parent / "site-source" / notebook.relative_to(ROOT)
    cells: list[dict[str, Any]] = json.loads(laid_out.read_text(encoding="utf-8"))["cells"]
    return cells


def page_of(notebook: Path) -> Path:
    return notebook.relative_to(ROOT).with_suffix(".html")


def article(page: BeautifulSoup) -> Tag:
    found = page.find("article")
    assert isinstance(found, Tag)
    return found


def test_every_notebook_has_a_page_and_a_place_in_the_menu(
    site: Path, pages: dict[Path, BeautifulSoup]
) -> None:
    menu = {a["href"] for a in pages[site / "index.html"].select(".sidebar-tree a")}
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        page = page_of(notebook)
        assert site / page in pages, notebook.name
        assert str(page) in menu, f"{notebook.name} is not in the menu"


def test_every_picture_has_its_words(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    for path, page in pages.items():
        for image in page.find_all("img"):
            alt = str(image.get("alt", ""))
            assert len(alt) > 20 and not alt.startswith(".."), f"{path.name}: {image}"
    for notebook in NOTEBOOKS:
        cells = cells_of(site, notebook)
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        known = [o["metadata"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
        shown = article(pages[site / page_of(notebook)]).find_all("img")
        assert [image["alt"] for image in shown] == [about["alt"] for about in known]


def test_no_link_within_the_site_is_dead(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    names = {
        path: {str(tag["id"]) for tag in page.find_all(id=True)} for path, page in pages.items()
    }
    dead = []
    for path, page in pages.items():
        for tag in page.find_all(["a", "img", "script", "link"]):
            target = tag.get("href") or tag.get("src")
            if not target or urlsplit(str(target)).scheme or path.name == "search.html":
                continue
            parts = urlsplit(str(target))
            file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not file.is_file():
                dead.append(f"{path.name}: {target}")
            elif parts.fragment and file in names and unquote(parts.fragment) not in names[file]:
                dead.append(f"{path.name}: {target}")
    assert not dead


def test_it_needs_no_network(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    for path, page in pages.items():
        for tag in page.find_all(["script", "img", "link", "iframe"]):
            target = str(tag.get("src") or tag.get("href") or "")
            assert not re.match(r"(https?:)?//", target), f"{path.name} fetches {target}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)[\s\"']*(https?:)?//", style.read_text()), style.name


def test_it_can_be_searched(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for notebook in NOTEBOOKS:
        assert f'"{page_of(notebook).with_suffix("")}"' in index
    assert pages[site / "search.html"].find(id="searchbox") is not None or "search" in index


def test_the_first_page_says_what_this_is_and_how_to_start(
    site: Path, pages: dict[Path, BeautifulSoup]
) -> None:
    first = article(pages[site / "index.html"])
    text = " ".join(first.get_text(" ").split())
    claim = text.index(
        "Wrap a model in DistributedDataParallel first, load the checkpoint on rank 0"
    )
    assert claim < 200, "the claim comes first"
    assert claim < text.index("make lab") < text.index("The lessons")
    assert len(first.find_all("img")) == 1
    rows = [[cell.get_text() for cell in row.find_all("td")] for row in first.select("tbody tr")]
    assert len(rows) == len(LESSONS)
    for row, notebook in zip(rows, LESSONS, strict=True):
        about = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["lesson"]
        assert row[0] == f"{about['number']:02} {about['title']}"
        assert row[2] == str(about["minutes"])


def test_hints_unfold_and_nothing_else_is_hidden_for_good(
    site: Path, pages: dict[Path, BeautifulSoup]
) -> None:
    for notebook in NOTEBOOKS:
        cells = cells_of(site, notebook)
        text = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        page = article(pages[site / page_of(notebook)])
        assert len(page.select("details:not(.hide)")) == text.count("<details>"), notebook.name
        assert all(hint.find("summary") for hint in page.find_all("details"))
        outputs = sum(len(cell.get("outputs", [])) for cell in cells)
        shown = page.select(
            ".cell_output > .output, .cell_output img, .cell_output > .highlight-python"
        )
        assert len(shown) >= outputs, f"{notebook.name}: {len(shown)} of {outputs} outputs"


def test_formulas_are_drawn_without_a_script(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    formulas = 0
    for page in pages.values():
        formulas += len(page.find_all("math"))
        text = article(page).get_text() if page.find("article") else ""
        assert "$$" not in text and "\\frac" not in text
    assert formulas >= 1


# --- A small project, with what the real one must not have ----------------------------------------

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501


def markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def code(name: str, text: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code", "id": name, "metadata": {"jupyter": {"outputs_hidden": True}},
        "execution_count": 1, "source": text, "outputs": list(outputs),
    }  # fmt: skip


def printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, BeautifulSoup]:
    """Builds a site of one lesson: what was said on the way, and the lesson's page."""
    root = tmp_path_factory.mktemp("small")
    for name in ("docs", "figures"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("README.md", "CONTRIBUTING.md", "LICENSE", "tools/build_site.py"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "launch").mkdir()
    (root / "launch" / "train.py").write_text("loss = 1\n")
    picture = {
        "output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<figure>"},
        "metadata": {"image/png": {"alt": "one point of light", "width": 720, "height": 300}},
    }  # fmt: skip
    cells = [
        markdown("title", "# Measure a thing\n\nThe script is [train.py](../launch/train.py)."),
        code("before", "print('open')", printed("seen before\n")),
        markdown("predict", "**Predict** what it prints."),
        code("prediction", "prediction = None"),
        code("run", "%%torchrun --nproc-per-node 2\nimport os", picture),
        code(
            "reveal", "print('you predicted', prediction)", printed("you predicted nothing yet\n")
        ),
        code("after", "print('open')", printed("seen after\n")),
        code("stub", "answer = None", printed("seen too\n")),
        markdown("again", "**Predict** again."),
        code("both", "guess = {'a': None}\nprint(1)", printed("an answer at once\n")),
        code("compare", "print('you predicted', guess)", printed("you predicted nothing at all\n")),
        markdown("end", "**Next:** [lesson 43](43_not_written.ipynb)"),
    ]
    notebook = {
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {
            "language_info": {"name": "python"},
            "lesson": {"number": 42, "title": "Measure a thing", "goal": "it is", "minutes": 5},
        },
    }  # fmt: skip
    (root / "notebooks" / "solutions").mkdir(parents=True)
    for folder in ("notebooks", "notebooks/solutions"):
        (root / folder / "42_measure_a_thing.ipynb").write_text(json.dumps(notebook))
    built = build(root, root / "build")
    assert built.returncode != 0, "a dead link must fail the build"
    page = root / "build" / "site" / "notebooks" / "42_measure_a_thing.html"
    return built.stderr, BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def test_a_link_to_a_lesson_that_is_not_there_is_told(small: tuple[str, BeautifulSoup]) -> None:
    said, _ = small
    assert "42_measure_a_thing.ipynb" in said and "43_not_written.ipynb" in said


def test_a_lesson_is_numbered_and_leads_to_its_script(small: tuple[str, BeautifulSoup]) -> None:
    page = article(small[1])
    title = page.find("h1")
    assert isinstance(title, Tag) and title.get_text().startswith("42 Measure a thing")
    hrefs = [a["href"] for a in page.find_all("a")]
    assert "../launch/train.html" in hrefs and "solutions/42_measure_a_thing.html" in hrefs


def test_only_what_answers_a_prediction_is_folded(small: tuple[str, BeautifulSoup]) -> None:
    page = article(small[1])
    folded = page.select("details.hide")
    assert len(folded) == 4
    assert folded[0].find("img")
    told = ["you predicted nothing yet", "an answer at once", "you predicted nothing at all"]
    assert all(text in fold.get_text() for text, fold in zip(told, folded[1:], strict=True))
    image = page.find("img")
    assert isinstance(image, Tag) and image["alt"] == "one point of light"
    assert "width: 720px" in str(image["style"])


def test_a_cell_of_torchrun_is_coloured_as_python(small: tuple[str, BeautifulSoup]) -> None:
    cell = next(c for c in small[1].select(".cell_input") if "%%torchrun" in c.get_text())
    assert cell.select_one(".cp") and cell.select_one(".kn")
