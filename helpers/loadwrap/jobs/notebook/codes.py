"""Statements and code objects inside the text of a cell or file."""

from __future__ import annotations
import __future__

import ast
import functools
import types
from collections.abc import Iterator

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


@functools.lru_cache(maxsize=512)
def top_level(text: str) -> tuple[Node, ...]:
    """Returns the definitions outside any function or class, those under ``if`` included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    return tuple(_outer(tree))


def _outer(node: ast.AST) -> Iterator[Node]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Node):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _outer(child)


def first_line(node: Node) -> int:
    """Returns the first line of a definition, decorators included, as its code has it."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def has_future_annotations(flags: int) -> bool:
    """Says whether a code object was compiled under ``from __future__ import annotations``."""
    return bool(flags & __future__.annotations.compiler_flag)


def codes_of(text: str, node: Node, flags: int) -> list[types.CodeType]:
    """Compiles a text and returns the code objects of one of its top-level definitions.

    There are up to two: a file is compiled whole, a cell one statement at a time, and the
    compiler makes different code of ``math.floor(x)`` where it sees ``import math``.

    Args:
        text: The whole cell: line numbers are part of what is compared.
        node: The definition.
        flags: ``co_flags`` of the code to compare with, for its ``__future__`` features.
    """
    return [
        code
        for module in _compiled(text, first_line(node), flags & _FUTURE)
        for code in codes_in(module)
        if code.co_name == node.name and code.co_firstlineno == first_line(node)
    ]


@functools.lru_cache(maxsize=256)
def _compiled(text: str, line: int, features: int) -> tuple[types.CodeType, ...]:
    flags = features | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as IPython compiles a cell
    try:
        tree = ast.parse(text)
        around = [statement for statement in tree.body if statement.lineno <= line][-1:]
        # A decorated statement starts at its def: then the one before was found.
        around += [statement for statement in tree.body if statement.lineno > line][:1]
        return tuple(
            compile(source, "<cell>", "exec", flags=flags, dont_inherit=True)
            for source in (tree, *(ast.Module([statement], []) for statement in around))
        )
    except (SyntaxError, ValueError):
        return ()


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields every code object inside another, at any depth."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_in(constant)
