"""Finds the source of a function object, and proves that it is that object's."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from dataclasses import dataclass
from typing import Any

from .cells import current_shell
from .codes import Node, codes_of, first_line, has_future_annotations, top_level
from .literals import NotPlain, SourceError, literal

AGAIN = "run the cell that defines it again"


@dataclass(frozen=True)
class Definition:
    """One top-level ``def`` or ``class``, as it was written.

    Attributes:
        name: The name that the statement binds.
        file: File name of its code: a cell's, or a real one.
        first: Its first line there, decorators included, from 1.
        lines: The lines, unchanged.
        node: The statement.
        future_annotations: Whether ``from __future__ import annotations`` held.
        namespace: The globals that it was run in.
    """

    name: str
    file: str
    first: int
    lines: tuple[str, ...]
    node: Node
    future_annotations: bool
    namespace: dict[str, Any]


def cut_out(
    text: str, file: str, node: Node, future_annotations: bool, namespace: dict[str, Any]
) -> Definition:
    """Cuts one definition's lines out of the text that holds it."""
    first = first_line(node)
    lines = tuple(text.split("\n")[first - 1 : node.end_lineno])
    return Definition(node.name, file, first, lines, node, future_annotations, namespace)


def text_of(file: str, namespace: dict[str, Any] | None = None) -> str:
    """Returns what Python compiled under a file name, as far as it is kept; else ``""``."""
    return "".join(linecache.getlines(file, namespace))


def define_function(value: Any, name: str) -> Definition:
    """Returns the source of a function, decorator lines included.

    Args:
        value: A function, or what decorators made of one (with ``functools.wraps``).
        name: What the user calls it; for messages.

    Raises:
        SourceError: It has no source that could stand alone.
    """
    function, wrappers = unwrapped(value)
    refuse_unless_function(function, name)
    code = function.__code__
    text = text_of(code.co_filename, function.__globals__)
    if not text:
        raise SourceError(
            f"the source of {name} is not kept (it was made by exec, or in a cell under %%time): "
            f"define it in a plain cell"
        )
    node = next((n for n in top_level(text) if first_line(n) == code.co_firstlineno), None)
    if node is None or isinstance(node, ast.ClassDef) or not is_source(text, node, code):
        raise SourceError(f"the source of {name} has changed since it was run: {AGAIN}")
    if wrappers > len(node.decorator_list):
        raise SourceError(
            f"{name} was wrapped by a call after its definition: "
            f"write the wrapper as a line @... above its def"
        )
    _refuse_stale_defaults(function, node, name)
    future = has_future_annotations(code.co_flags)
    return cut_out(text, code.co_filename, node, future, function.__globals__)


def unwrapped(value: Any) -> tuple[Any, int]:
    """Returns the function under its decorators, and how many there were.

    A function at the top of a cell that only carries ``functools.wraps`` of another is
    its own source: what a decorator makes is defined inside the decorator.
    """
    depth = 0
    while hasattr(value, "__wrapped__") and not isinstance(value, types.MethodType):
        code = getattr(value, "__code__", None)
        if code is not None and "." not in code.co_qualname:
            break
        value, depth = value.__wrapped__, depth + 1
    return value, depth


def is_source(text: str, node: Node, code: types.CodeType) -> bool:
    """Says whether a statement of a text compiles to exactly this code."""
    if node.name != code.co_name:
        return False
    # A shell that rewrites syntax trees compiles something else than the text.
    rewritten = bool(getattr(current_shell(), "ast_transformers", ()))
    return rewritten or code in codes_of(text, node, code.co_flags)


def refuse_unless_function(function: Any, name: str) -> None:
    """Raises SourceError, in one sentence, for what is no plain function."""
    if isinstance(function, types.MethodType):
        raise SourceError(
            f"{name} is a bound method: write a function that makes or takes the object"
        )
    if isinstance(function, functools.partial):
        raise SourceError(f"{name} is a functools.partial: write it as a function with def")
    if isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType):
        raise SourceError(f"{name} is built in, without Python source: call it from a function")
    if not isinstance(function, types.FunctionType):
        what = "a callable object" if callable(function) else "not a function"
        raise SourceError(f"{name} is {what}: write it as a function with def")
    code = function.__code__
    if code.co_name == "<lambda>":
        raise SourceError(f"{name} is a lambda: write it as a function with def")
    if code.co_freevars:
        raise SourceError(
            f"{name} is a closure, it uses {' and '.join(code.co_freevars)} of the function "
            f"around it: pass that as an argument (or, if {name} is decorated, give the "
            f"decorator's inner function functools.wraps)"
        )
    if "<locals>" in code.co_qualname:
        raise SourceError(f"{name} is defined inside a function: define it at the top of a cell")
    if "." in code.co_qualname:
        raise SourceError(f"{name} is a method of a class: write a function that calls it")


def _refuse_stale_defaults(
    function: types.FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> None:
    # A default is the value of its name when the cell ran; the file would take today's.
    positional = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
    written: list[ast.expr | None] = [*node.args.defaults, *node.args.kw_defaults]
    arguments = positional[len(positional) - len(node.args.defaults) :]
    arguments += [argument.arg for argument in node.args.kwonlyargs]
    kept = dict(zip(arguments, function.__defaults__ or (), strict=False))
    kept |= function.__kwdefaults__ or {}
    for argument, default in zip(arguments, written, strict=True):
        if not isinstance(default, ast.Name) or argument not in kept:
            continue
        if default.id not in function.__globals__:
            continue
        if not same_value(function.__globals__[default.id], kept[argument]):
            raise SourceError(
                f"{default.id}, the default of {argument} in {name}, has changed since {name} "
                f"was defined: {AGAIN}"
            )


class _Nothing:
    """References to nothing: constants are compared by themselves."""

    def module(self, name: str) -> str:
        return name

    def named(self, value: Any) -> str | None:
        return None


def same_value(one: Any, other: Any) -> bool:
    """Says whether two values are one object or equal constants."""
    if one is other:
        return True
    try:
        return literal(one, _Nothing()) == literal(other, _Nothing())
    except (NotPlain, SourceError):
        return False
