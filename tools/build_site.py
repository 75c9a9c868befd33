"""Make the site in build/site from the committed, executed notebooks; nothing is run.

    .venv/bin/python tools/build_site.py            # fails at the first dead link between pages
    .venv/bin/python tools/build_site.py --links    # asks the network whether links to others hold

Its source is laid out in build/site-source: the notebooks as they are read on a page, the scripts
that they launch, and what docs/ adds. Nothing of a lesson is written anywhere but in its notebook.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

Notebook = dict[str, Any]

# A cell in which the learner writes a prediction: the name that gets it.
ASKS = re.compile(r"^(\w+) = (?:None\b|\{[^}]*\bNone\b)", re.MULTILINE)


def lessons() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> Notebook:
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def source_of(cell: Notebook) -> str:
    return "".join(cell["source"])


def fold_answers(notebook: Notebook) -> None:
    """Fold what would answer a prediction: from the cell that asks to the one that compares."""
    text, asked = "", ""
    for cell in notebook["cells"]:
        source = source_of(cell)
        if cell["cell_type"] != "code":
            text = source
            asked = "" if "## Exercise" in source else asked
            continue
        compares = bool(asked) and asked in source and "predicted" in source
        found = ASKS.search(source)
        if found and "**Predict" in text:
            asked, compares, text = found[1], False, ""
        if asked and cell.get("outputs"):
            cell["metadata"].setdefault("tags", []).append("hide-output")
        if compares:
            asked = ""


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
        about = read(path)["metadata"]["lesson"]
        title = f"[{about['number']:02} {about['title']}](notebooks/{path.name})"
        rows.append(f"| {title} | {about['goal']} | {about['minutes']} |")
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
    """Write the site's source anew: a page that was removed must not linger."""
    shutil.rmtree(source, ignore_errors=True)
    for name, text in pages():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "figures", source / "figures")


def sphinx(builder: str, source: Path, out: Path) -> int:
    """Run Sphinx; a link that leads nowhere fails the build, after all of them were told."""
    shutil.rmtree(out, ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-j", "auto", "-b", builder]
    folders = ["-c", DOCS, "-d", source / ".doctrees", source, out]
    command = [sys.executable, "-m", "sphinx", *options, *map(str, folders)]
    return subprocess.run(command, cwd=ROOT).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the site in build/site.")
    parser.add_argument("--links", action="store_true", help="only check the links to other sites")
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="instead of build/")
    arguments = parser.parse_args()
    source, site = arguments.into / "site-source", arguments.into / "site"
    lay_out(source)
    if arguments.links:
        sys.exit(sphinx("linkcheck", source, arguments.into / "site-links"))
    status = sphinx("html", source, site)
    if status == 0:
        print(f"The site is ready: {os.path.relpath(site / 'index.html')}")
    sys.exit(status)


if __name__ == "__main__":
    main()
