"""What the notebooks know and a Sphinx page would lose: alt texts, sizes, links to scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.python import Python3Lexer
from pygments.token import Comment
from sphinx import addnodes
from sphinx.application import Sphinx

_SCRIPT = re.compile(r"(?:\.\./)*(launch/\w+)\.py")


class CellLexer(RegexLexer):
    """Python, after a first line such as ``%%torchrun --nproc-per-node 4``."""

    name = "Notebook cell"
    tokens = {
        "root": [
            (r"\A(%%.*\n)((?:.|\n)+)", bygroups(Comment.Preproc, using(Python3Lexer))),
            (r"(?:.|\n)+", using(Python3Lexer)),
        ]
    }


def described(app: Sphinx, doctree: nodes.document) -> None:
    """Gives the pictures of a notebook's outputs their alt text and their size on the page."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix != ".ipynb":
        return
    known = dict(_pictures(json.loads(source.read_text(encoding="utf-8"))))
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir, image["uri"].lstrip("/"))
        if not path.is_file():
            path = source.parent / image["uri"]
        if not path.is_file():
            continue  # Sphinx says so, with the line
        about = known.get(hashlib.sha256(path.read_bytes()).hexdigest())
        if about is not None:
            image["alt"] = about["alt"]
            image["width"] = f"{about['width']}px"


def _pictures(notebook: dict[str, Any]) -> Any:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            about = output.get("metadata", {}).get("image/png")
            if about is not None and "image/png" in output["data"]:
                png = base64.b64decode("".join(output["data"]["image/png"]))
                yield hashlib.sha256(png).hexdigest(), about


def scripts_as_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Turns a link to a script of launch/ into one to the page that shows it."""
    for link in list(doctree.findall(addnodes.download_reference)):
        found = _SCRIPT.fullmatch(link["reftarget"])
        if found:
            page = addnodes.pending_xref(
                "", refdomain="std", reftype="doc", reftarget=f"/{found[1]}", refexplicit=True,
                refdoc=app.env.docname, refwarn=True,
            )  # fmt: skip
            page += link.children
            link.replace_self(page)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", described)
    app.connect("doctree-read", scripts_as_pages)
    app.add_lexer("python", CellLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
