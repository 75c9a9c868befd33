"""Make the site in build/site from the committed, executed notebooks; nothing is run.

    .venv/bin/python tools/build_site.py            # fails at the first dead link between pages
    .venv/bin/python tools/build_site.py --links    # asks the network whether links to others hold

Its source is laid out first, in the end in build/site-source: the notebooks as they are read on a
page, the scripts that they launch, and what docs/ adds. Nothing of a lesson is written anywhere but
in its notebook.
"""

import argparse
import ast
import contextlib
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

Notebook = dict[str, Any]


class Refused(Exception):
    """The site cannot be made; the message is one sentence."""


def lessons() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> Notebook:
    """Return a notebook that was run from its first cell to its last, with no error.

    Raises:
        Refused: It was not, or it is no notebook.
    """
    name = path.relative_to(ROOT)
    try:
        notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
        nbformat.validate(notebook)
    except (ValueError, nbformat.ValidationError) as error:
        why = str(error).partition("\n")[0].rstrip(":.")
        raise Refused(f"{name} is not a notebook: {why}.") from error
    for at, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code" or not source_of(cell).strip():
            continue
        label = cell.get("id", at)
        if cell["execution_count"] is None:
            raise Refused(f"{name}: its cell {label} was not run: make execute NB={name}.")
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                raise Refused(f"{name}: its cell {label} shows an error, {output['ename']}.")
    return notebook


def about(path: Path) -> Notebook:
    """Return what a lesson says of itself, for the table of the first page."""
    said: Notebook = read(path)["metadata"].get("lesson", {})
    lacks = [key for key in ("number", "title", "goal", "minutes") if key not in said]
    if lacks:
        where = f"{path.relative_to(ROOT)}: its metadata"
        raise Refused(f"{where} have no {', '.join(lacks)} under 'lesson'.")
    return said


def source_of(cell: Notebook) -> str:
    return "".join(cell["source"])


def asked_in(source: str) -> set[str]:
    """Return the names that a cell leaves to the learner: those it sets to None, or to Nones."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return set()
    names = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and is_blank(statement.value):
            names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return names


def is_blank(value: ast.expr | None) -> bool:
    """Return whether this is a literal with a None in it."""
    try:
        ast.literal_eval(value or "")
    except (ValueError, SyntaxError):
        return False
    assert value is not None
    return any(isinstance(node, ast.Constant) and node.value is None for node in ast.walk(value))


def until_answered(cells: list[Notebook]) -> list[Notebook]:
    """Return the cells below a text with **Predict**, to the last one that answers.

    Those are the cells that print what was "predicted" beside what is so, of every name that was
    asked for: a dictionary of guesses may be answered key by key. If no name was asked for it is
    the first such cell; if there is none, nothing before the next heading is sure to be no answer.
    """
    names: set[str] = set()
    asking, heading, answered = True, 0, 0
    for at, cell in enumerate(cells):
        source = source_of(cell)
        if cell["cell_type"] != "code":
            if "## Exercise" in source or (not names and "**Predict" in source):
                return cells[: answered or heading or at]
            asking = asking and "**Predict" not in source
            heading = heading or (0 if names or not source.startswith("#") else at)
            continue
        asked = asked_in(source)
        if names & asked:  # a prediction of the same name, and not this one
            return cells[: answered or at]
        if asked and asking:
            names |= asked
        elif "predicted" in source and not names:
            return cells[: at + 1]
        elif "predicted" in source and names & set(re.findall(r"\w+", source)):
            answered = at + 1
    return cells[: answered or heading or len(cells)]


def fold_answers(notebook: Notebook) -> None:
    """Fold what would answer a prediction: from the text that asks to the cell that compares."""
    cells = notebook["cells"]
    for at, cell in enumerate(cells, start=1):
        if cell["cell_type"] == "code" or "**Predict" not in source_of(cell):
            continue
        for below in until_answered(cells[at:]):
            tags = below["metadata"].setdefault("tags", [])
            if below.get("outputs") and "hide-output" not in tags:
                tags.append("hide-output")


def reading_copy(path: Path) -> Notebook:
    """Return the notebook as a page: its number in the title, its other half, answers folded."""
    notebook = read(path)
    is_solution = path.parent.name == "solutions"
    other = Path("..", path.name) if is_solution else Path("solutions", path.name)
    links = ["To run it: `make lab`", f"{{download}}`take the notebook <{path.name}>`"]
    if (path.parent / other).exists():
        links.insert(1, f"[{'the lesson' if is_solution else 'its solutions'}]({other})")
    title = notebook["cells"][0]
    title["source"] = re.sub(r"\A# ", f"# {path.name[:2]} ", source_of(title))
    if is_solution:
        title["source"] = re.sub(r"\A(# .*)", r"\1: solutions", title["source"])
    else:
        fold_answers(notebook)
    note = f":::{{container}} reading\n{' · '.join(links)}\n:::"
    cell = {"cell_type": "markdown", "id": "on-this-page", "metadata": {}, "source": note}
    notebook["cells"].insert(1, cell)
    return notebook


def table_of_lessons() -> str:
    """Return the lessons as their notebooks describe themselves, and their place in the menu."""
    rows = ["| Lesson | At the end you have shown that | Minutes |", "|---|---|---|"]
    for path in lessons():
        said = about(path)
        title = f"[{said['number']:02} {said['title']}](notebooks/{path.name})"
        rows.append(f"| {title} | {said['goal']} | {said['minutes']} |")
    pages = [f"notebooks/{path.stem}" for path in lessons()]
    menu = ["```{toctree}", ":hidden:", ":caption: Lessons", "", *pages, "solutions", "```"]
    return "\n".join([*rows, "", *menu])


def pages() -> Iterator[tuple[str, str]]:
    """Yield every page of the source: its path, and its text."""
    for path in [*lessons(), *sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))]:
        yield str(path.relative_to(ROOT)), json.dumps(reading_copy(path))
    for path in sorted((ROOT / "notebooks").glob("*.md")):
        yield f"notebooks/{path.name}", path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "launch").glob("*.py")):
        title = f"launch/{path.name}"
        yield (
            title.removesuffix(".py") + ".md",
            f"# {title}\n\n```{{literalinclude}} {path.name}\n```\n",
        )
        yield title, path.read_text(encoding="utf-8")
    for name in ("README.md", "CONTRIBUTING.md", "LICENSE"):
        yield name, (ROOT / name).read_text(encoding="utf-8")
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        yield path.name, text.replace("% lessons\n", table_of_lessons() + "\n")


def lay_out(source: Path) -> None:
    """Write the site's source, into a folder that is not there yet."""
    for name, text in pages():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "figures", source / "figures")


def sphinx(builder: str, source: Path, out: Path) -> int:
    """Run Sphinx; a link that leads nowhere fails the build, after all of them were told."""
    options = ["-W", "--keep-going", "-q", "-T", "-j", "auto", "-b", builder]
    folders = ["-c", DOCS, "-d", source.with_name("doctrees"), source, out]
    command = [sys.executable, "-m", "sphinx", *options, *map(str, folders)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            # The folder of this build is gone when the line is read.
            sys.stderr.write(line.replace(f"{source}{os.sep}", ""))
    return process.returncode


class Page(HTMLParser):
    """Where a page leads, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if tag in ("a", "img", "source", "video", "audio", "iframe"):
            self.links += [found[name] for name in ("href", "src") if name in found]


def dead_links(site: Path) -> Iterator[str]:
    """Yield what Sphinx does not see, which lets raw HTML pass: links to what is not there."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "search.html":
                continue
            file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            there = file.is_file() or (file / "index.html").is_file()
            if there and (not parts.fragment or file not in pages):
                continue
            if not there or unquote(parts.fragment) not in pages[file].names:
                yield f"{path.relative_to(site)}: a link leads nowhere: {link}"


def put(made: Path, place: Path) -> None:
    """Put what was made in the place of what was there; another build may be doing the same."""
    for attempt in range(100):
        with contextlib.suppress(FileNotFoundError):
            place.rename(made.with_name(f"{made.name}-before-{attempt}"))
        try:
            made.rename(place)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise Refused(f"{place} is written by other builds all the time.")


def make(into: Path, links: bool) -> int:
    """Make the site in a folder of this build's own: one that fails leaves the last good one."""
    places = {name: into / name for name in ("site", "site-source", "site-links")}
    for place in (into, *places.values()):
        if place.exists() and not place.is_dir():
            raise Refused(f"{place} is in the way: it is not a folder.")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".site-") as name:
        made = {key: Path(name).resolve() / key for key in places}
        lay_out(made["site-source"])
        if links:
            status = sphinx("linkcheck", made["site-source"], made["site-links"])
            put(made["site-links"], places["site-links"])
            return status
        status = sphinx("html", made["site-source"], made["site"])
        dead = list(dead_links(made["site"]))
        print(*dead, sep="\n", end="\n" * bool(dead), file=sys.stderr)
        if status == 0 and not dead:
            for key in ("site-source", "site"):
                put(made[key], places[key])
            print(f"The site is ready: {os.path.relpath(places['site'] / 'index.html')}")
        return status or len(dead[:1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the site in build/site.")
    parser.add_argument("--links", action="store_true", help="only check the links to other sites")
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="instead of build/")
    arguments = parser.parse_args()
    try:
        sys.exit(make(arguments.into, arguments.links))
    except Refused as refused:
        sys.exit(f"No site was made. {refused}")
    except OSError as error:
        sys.exit(f"No site was made. {error.filename}: {error.strerror}.")


if __name__ == "__main__":
    main()
