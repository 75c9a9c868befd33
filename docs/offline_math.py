"""Formulas as MathML: browsers draw it themselves, without a script and without a network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

# A name such as ln stands off from what it is applied to: browsers leave that to the formula.
_NAME = re.compile(r"(<mi>(?:ln|log|exp|max|min)</mi>)(?=<mi>)")


def _mathml(formula: str, display: str) -> str:
    return _NAME.sub(r'\1<mspace width="0.17em"></mspace>', convert(formula, display=display))


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<div class="math">{_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("offline", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
