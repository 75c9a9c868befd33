"""The site: a page for every notebook, nothing lost on the way, no dead link, no network needed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
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


def project(root: Path, *more: dict[str, Any], **metadata: Any) -> Path:
    """Makes a project of one lesson, with these cells at its end, and returns the lesson."""
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
        *more,
    ]
    notebook = {
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {
            "language_info": {"name": "python"},
            "lesson": {"number": 42, "title": "Measure a thing", "goal": "it is", "minutes": 5},
            **metadata,
        },
    }  # fmt: skip
    (root / "notebooks" / "solutions").mkdir(parents=True)
    for name in ("reference_card", "instructor_guide"):
        (root / "notebooks" / f"{name}.md").write_text("# A page\n")
    for folder, up in (("notebooks/solutions", "../.."), ("notebooks", "..")):
        lesson = root / folder / "42_measure_a_thing.ipynb"
        lesson.write_text(json.dumps(notebook).replace("../launch", f"{up}/launch"))
    return lesson


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """Builds a site of one lesson, twice at once, and returns the lesson's page."""
    root = tmp_path_factory.mktemp("small")
    project(root)
    with ThreadPoolExecutor() as pool:
        builds = [pool.submit(build, root, root / "build") for _ in range(2)]
    for built in builds:
        assert built.result().returncode == 0, built.result().stderr
    assert sorted(path.name for path in (root / "build").iterdir()) == ["site", "site-source"]
    page = root / "build" / "site" / "notebooks" / "42_measure_a_thing.html"
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def test_what_leads_nowhere_is_told_and_the_last_site_stays(tmp_path: Path) -> None:
    text = (
        "**Next:** [lesson 43](43_not_written.ipynb), <a href='99_nowhere.ipynb'>raw</a>, "
        "<a href='#no-place'>a place</a>, <img src='gone.png'>\n\n![a picture](missing.png)"
    )
    project(tmp_path, markdown("end", text))
    (tmp_path / "build" / "site").mkdir(parents=True)
    (tmp_path / "build" / "site" / "index.html").write_text("the last good one")
    built = build(tmp_path, tmp_path / "build")
    assert built.returncode != 0
    told = built.stderr.splitlines()
    for link in ("43_not_written.ipynb", "99_nowhere.ipynb", "#no-place", "gone.png"):
        assert any("42_measure_a_thing." in line and link in line for line in told), link
    assert "image file not readable: notebooks/missing.png" in built.stderr
    assert "report" not in built.stderr and str(tmp_path) not in built.stderr
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["site"]
    assert (tmp_path / "build" / "site" / "index.html").read_text() == "the last good one"


WRONG = {"output_type": "error", "ename": "KeyError", "evalue": "'a'", "traceback": []}
LESSON = "notebooks/42_measure_a_thing.ipynb"


@pytest.mark.parametrize(
    ("cell", "metadata", "says"),
    [
        (
            {**code("late", "1"), "execution_count": None},
            {},
            f"{LESSON}: its cell late was not run",
        ),
        (code("bad", "1", WRONG), {}, f"{LESSON}: its cell bad shows an error, KeyError."),
        ({"cell_type": "code", "id": "half", "metadata": {}, "source": "1"}, {}, "'outputs'"),
        ({**code("no-outputs", "1"), "outputs": None}, {}, f"{LESSON} is not a notebook"),
        (markdown("end", "The end."), {"lesson": {"number": 1, "title": "A"}}, "no goal, minutes"),
    ],
)
def test_a_notebook_that_cannot_be_a_page_is_refused_in_one_sentence(
    tmp_path: Path, cell: dict[str, Any], metadata: dict[str, Any], says: str
) -> None:
    project(tmp_path, cell, **metadata)
    built = build(tmp_path, tmp_path / "build")
    assert built.returncode == 1
    assert built.stderr.startswith("No site was made. notebooks/42_") and says in built.stderr
    assert len(built.stderr.splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "site").write_text("mine")
    for place in ("taken", "build", "taken/deeper"):
        built = build(tmp_path, tmp_path / place)
        assert built.returncode == 1 and built.stderr.startswith("No site was made. ")
        assert len(built.stderr.splitlines()) == 1
    assert (tmp_path / "taken").read_text() == (tmp_path / "build/site").read_text() == "mine"


def folded(*cells: dict[str, Any]) -> list[str]:
    """The cells whose outputs build_site.py folds."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read = [json.loads(json.dumps(cell)) for cell in cells]
    module.fold_answers({"cells": read})
    return [cell["id"] for cell in read if "hide-output" in cell["metadata"].get("tags", [])]


def test_an_answer_is_folded_however_it_was_asked() -> None:
    def told(name: str, source: str) -> dict[str, Any]:
        return code(name, source, printed("an answer\n"))

    asks, other = markdown("asks", "**Predict**: who goes on?"), markdown("text", "Then.")
    exercise, heading = markdown("exercise", "## Exercise 1"), markdown("heading", "## Next")
    first, last = told("first", "print(1)"), told("last", "print('predicted', a, b)")
    end = told("end", "print(2)")

    assert folded(asks, first, other, last, end) == ["first", "last"], "no name"
    assert folded(asks, first, heading, end) == ["first"], "no name, and no comparison"
    for blank in ("a = None\nb = None", "a, b = None, None", "a: int | None = None", "a = [None]"):
        found = folded(asks, code("blank", blank), first, other, last, end)
        assert found == ["first", "last"], blank
    keys = code("keys", "a = {\n    'x': None,\n    'y': None,\n}")
    at_once = told("at-once", "print('predicted', a['x'])")
    assert folded(asks, keys, at_once, heading, first, last, end) == ["at-once", "first", "last"]
    assert folded(asks, code("blank", "a = None"), first, exercise, last, end) == ["first"]


def test_a_lesson_is_numbered_and_leads_to_its_script(small: BeautifulSoup) -> None:
    page = article(small)
    title = page.find("h1")
    assert isinstance(title, Tag) and title.get_text().startswith("42 Measure a thing")
    hrefs = [a["href"] for a in page.find_all("a")]
    assert "../launch/train.html" in hrefs and "solutions/42_measure_a_thing.html" in hrefs


def test_only_what_answers_a_prediction_is_folded(small: BeautifulSoup) -> None:
    page = article(small)
    folded = page.select("details.hide")
    assert len(folded) == 4
    assert folded[0].find("img")
    told = ["you predicted nothing yet", "an answer at once", "you predicted nothing at all"]
    assert all(text in fold.get_text() for text, fold in zip(told, folded[1:], strict=True))
    image = page.find("img")
    assert isinstance(image, Tag) and image["alt"] == "one point of light"
    assert "width: 720px" in str(image["style"])


def test_a_cell_of_torchrun_is_coloured_as_python(small: BeautifulSoup) -> None:
    cell = next(c for c in small.select(".cell_input") if "%%torchrun" in c.get_text())
    assert cell.select_one(".cp") and cell.select_one(".kn")
