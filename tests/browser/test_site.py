"""The site in a browser: it prints, unfolds, fits any window, and can be read in the dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from built_site import build
from lesson_files import ROOT

LESSON = "notebooks/01_reproduce_the_loss_spike.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("build")
    built = build(ROOT, into)
    assert built.returncode == 0, built.stdout + built.stderr
    return into / "site"


@pytest.mark.parametrize("paper", ["A4", "Letter"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reference_card_prints_on_one_sheet(
    site: Path, page: Page, paper: str, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto((site / "notebooks/reference_card.html").as_uri())
    pdf = page.pdf(format=paper)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    page.emulate_media(media="print")
    column = page.evaluate(
        "getComputedStyle(document.querySelector('#reference-card')).columnCount"
    )
    assert column == "2"
    sizes = page.evaluate(
        "[...document.querySelectorAll('#reference-card :is(p, td, pre, code)')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize) * 0.75)"
    )
    assert min(sizes) >= 7.9, "points: smaller is not read at arm's length"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("width", [420, 1400])
def test_no_page_is_wider_than_its_window(site: Path, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        if page.evaluate(over) > 0:
            wide.append(path.name)
        # A figure keeps its proportions when it is made smaller.
        bent = page.evaluate(
            "[...document.querySelectorAll('article img')].filter(i => i.offsetParent && "
            "Math.abs(i.width / i.height - i.naturalWidth / i.naturalHeight) > 0.1).length"
        )
        assert bent == 0, path.name
    assert not wide


def test_hints_and_answers_unfold(site: Path, page: Page) -> None:
    page.goto((site / LESSON).as_uri())
    for kind in ("article details:not(.hide)", "article details.hide"):
        first = page.locator(kind).first
        inside = first.evaluate_handle("d => d.children[1] || d")
        assert first.get_attribute("open") is None
        first.locator("summary").click()
        assert first.get_attribute("open") is not None
        element = inside.as_element()
        assert element is not None and element.is_visible()


def test_figures_keep_their_white_plate_in_the_dark(site: Path, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto((site / LESSON).as_uri())
    plates = page.evaluate(
        "[...document.querySelectorAll('article img')]"
        ".map(i => getComputedStyle(i).backgroundColor)"
    )
    assert plates and set(plates) == {"rgb(255, 255, 255)"}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground)[:3])) < 60


def test_the_search_finds_a_lesson(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator(".sidebar-search").fill("resume exactly")
    page.locator(".sidebar-search").press("Enter")
    found = page.locator("#search-results li a")
    found.first.wait_for(timeout=20_000)
    assert any("Resume exactly" in text for text in found.all_inner_texts())
