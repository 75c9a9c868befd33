"""The global names that a definition uses, and when it uses them."""

from __future__ import annotations

import ast
import copy
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Uses:
    """Global names that a top-level ``def`` or ``class`` uses.

    Attributes:
        now: Read while the statement runs: decorators, defaults, bases, class bodies.
        later: Read when the code is called.
        hints: Only in annotations that nothing evaluates.
        stored: Assigned under a ``global`` statement.
        chains: Dotted reads, such as ``("torch", "utils", "data")``.
        modules: Modules that the code itself imports.
    """

    now: dict[str, None] = field(default_factory=dict)
    later: dict[str, None] = field(default_factory=dict)
    hints: dict[str, None] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    chains: set[tuple[str, ...]] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)


def find_uses(node: ast.stmt, future_annotations: bool) -> Uses:
    r"""Returns the global names that one definition uses, in a fixed order.

    Args:
        node: A top-level function or class.
        future_annotations: Whether ``from __future__ import annotations`` held for it.

    Example:
        >>> tree = ast.parse("def f(x, n=LIMIT):\n    return [scale(v) for v in x[:n]]")
        >>> uses = find_uses(tree.body[0], future_annotations=False)
        >>> list(uses.now), list(uses.later)
        (['LIMIT'], ['scale'])
    """
    uses = Uses()
    lazy = future_annotations or sys.version_info >= (3, 14)
    stripper = _AnnotationStripper(everywhere=lazy)
    bare = ast.fix_missing_locations(stripper.visit(copy.deepcopy(node)))
    table = symtable.symtable(ast.unparse(bare), "<piece>", "exec")
    _read_table(table, uses, now=True)
    for annotation in stripper.removed:
        uses.hints.update(dict.fromkeys(_names(annotation)))
    for text in _quoted_annotations(node):
        uses.hints.update(dict.fromkeys(_names(text)))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            chain = _dotted(inner)
            if chain:
                uses.chains.add(chain)
        elif isinstance(inner, ast.Import):
            uses.modules.update(alias.name for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.module and not inner.level:
            uses.modules.add(inner.module)
    for name in uses.now:
        uses.later.pop(name, None)
    for name in [*uses.now, *uses.later]:
        uses.hints.pop(name, None)
    return uses


class _AnnotationStripper(ast.NodeTransformer):
    """Takes out annotations that are not evaluated, keeping what they bind."""

    def __init__(self, everywhere: bool) -> None:
        self.everywhere = everywhere
        self.inside_function = False
        self.removed: list[ast.expr] = []

    def _strip(self, annotation: ast.expr) -> ast.expr:
        self.removed.append(annotation)
        return ast.Constant(None)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if self.everywhere and node.annotation is not None:
            node.annotation = self._strip(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self.everywhere or self.inside_function:
            node.annotation = self._strip(node.annotation)
        return self.generic_visit(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if self.everywhere and node.returns is not None:
            node.returns = self._strip(node.returns)
        before, self.inside_function = self.inside_function, True
        self.generic_visit(node)
        self.inside_function = before
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # A class body inside a function does evaluate its annotations.
        before, self.inside_function = self.inside_function, False
        self.generic_visit(node)
        self.inside_function = before
        return node


def _read_table(table: symtable.SymbolTable, uses: Uses, now: bool) -> None:
    top = table.get_type() == "module"
    # Sorted, because the order of a symbol table's entries is not part of its interface.
    for symbol in sorted(table.get_symbols(), key=lambda symbol: symbol.get_name()):
        name = symbol.get_name()
        if symbol.is_referenced() and (top or symbol.is_global()):
            (uses.now if now else uses.later)[name] = None
        if not top and symbol.is_declared_global() and symbol.is_assigned():
            uses.stored.add(name)
    for child in table.get_children():
        runs_later = child.get_type() == "function" and not _is_comprehension(child)
        _read_table(child, uses, now and not runs_later)


def _is_comprehension(table: symtable.SymbolTable) -> bool:
    return table.get_name().strip("<>") in ("listcomp", "setcomp", "dictcomp", "genexpr")


def _quoted_annotations(node: ast.AST) -> Iterator[ast.expr]:
    for inner in ast.walk(node):
        for name in ("annotation", "returns"):
            annotation = getattr(inner, name, None)
            if annotation is None:
                continue
            for part in ast.walk(annotation):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    try:
                        yield ast.parse(part.value.strip(), mode="eval").body
                    except (SyntaxError, ValueError):
                        continue  # Literal["two words"]: no annotation in quotes


def _names(expression: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(expression) if isinstance(part, ast.Name)]


def _dotted(node: ast.Attribute) -> tuple[str, ...]:
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    return (value.id, *reversed(parts)) if isinstance(value, ast.Name) else ()
