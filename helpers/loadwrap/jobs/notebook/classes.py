"""Finds the source of a class of the notebook, and refuses one that was changed since."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from .cells import executed_cells
from .codes import codes_in, codes_of, has_future_annotations, top_level
from .definitions import AGAIN, Definition, cut_out, same_value, text_of
from .literals import SourceError


def define_class(cls: type, name: str, namespace: dict[str, Any]) -> Definition:
    """Returns the source of a class of the notebook.

    A class does not say where it was defined. Its methods do; one without methods is
    looked for in the cells, the last one run first.

    Args:
        cls: The class.
        name: What the user calls it; for messages.
        namespace: The globals in which its name was found.

    Raises:
        SourceError: No cell holds its source, or it was changed after its definition.
    """
    if "." in cls.__qualname__:
        raise SourceError(f"{name} is defined inside another scope: define it at the top of a cell")
    own = {
        attribute: function
        for attribute, member in vars(cls).items()
        if (function := _function_of(member)) is not None
    }
    prefix = f"{cls.__qualname__}."
    methods = [f for f in own.values() if f.__code__.co_qualname.startswith(prefix)]
    if methods:
        namespace = methods[0].__globals__
        files = list(dict.fromkeys(method.__code__.co_filename for method in methods))
    else:
        files = executed_cells()
        if namespace.get("__file__"):
            files.append(namespace["__file__"])
    ours = {*files, *executed_cells()}
    flags = methods[0].__code__.co_flags if methods else 0
    written = False
    for file in files:
        text = text_of(file, namespace)
        for node in reversed(top_level(text)):
            if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
                continue
            written = True
            codes = codes_of(text, node, flags)
            if not any(_made(code, node, cls, own, namespace, ours) for code in codes):
                continue
            _refuse_stale_bases(node, cls, name, namespace)
            future = has_future_annotations(flags) or _has_text_for_hints(node, cls)
            return cut_out(text, file, node, future, namespace)
    if not written and any(text_of(file, namespace) for file in files):
        raise SourceError(
            f"{name} was not made by a class statement in a plain cell: write it as one"
        )
    raise SourceError(
        f"no cell holds the source of the class {name} as it is now: {AGAIN}, in a plain cell, "
        f"and do not change the class afterwards"
    )


def _function_of(member: Any) -> types.FunctionType | None:
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    elif isinstance(member, functools.cached_property):
        member = member.func
    member = inspect.unwrap(member) if callable(member) else member
    return member if isinstance(member, types.FunctionType) else None


def _made(
    code: types.CodeType,
    node: ast.ClassDef,
    cls: type,
    own: dict[str, types.FunctionType],
    namespace: dict[str, Any],
    ours: set[str],
) -> bool:
    """Says whether a class statement made a class, and nothing changed the class since."""
    if getattr(cls, "__firstlineno__", code.co_firstlineno) != code.co_firstlineno:
        return False
    if not _has_bases(node, cls, namespace):
        return False
    statements = list(_statements(node))
    defs = {
        _mangled(part.name, cls): part
        for part in statements
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    values: dict[str, ast.expr | None] = {}
    hints = set()
    for part in statements:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            hints.add(_mangled(part.target.id, cls))
            values[_mangled(part.target.id, cls)] = part.value
        elif isinstance(part, ast.Assign):
            names = [target.id for target in part.targets if isinstance(target, ast.Name)]
            values.update((_mangled(name, cls), part.value) for name in names)
    if hints != set(inspect.get_annotations(cls)) or not defs.keys() <= vars(cls).keys():
        return False
    codes = list(codes_in(code))
    # A base or metaclass may give functions of its own: __init_subclass__, Enum's __new__.
    relatives = {base.__qualname__ for base in [*cls.__mro__[1:], *inspect.getmro(type(cls))]}
    for attribute, function in own.items():
        if function.__code__.co_filename not in ours or function.__code__ in codes:
            continue
        # A method put there later, unless a decorator or an assignment of the body made it.
        decorated = attribute in defs and defs[attribute].decorator_list
        giver = function.__code__.co_qualname.partition(".")[0]
        if attribute not in values and not decorated and giver not in relatives:
            return False
    return all(_may_be(vars(cls).get(name), written) for name, written in values.items())


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yields the statements that run as part of a class body, those under ``if`` included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        inner = ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if not isinstance(child, inner):
            yield from _statements(child)


def _mangled(name: str, cls: type) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if private else name


def _has_bases(node: ast.ClassDef, cls: type, namespace: dict[str, Any]) -> bool:
    bases = (*cls.__mro__[1:], *getattr(cls, "__orig_bases__", ()))
    if not node.bases:
        return cls.__bases__ == (object,) or bool(node.decorator_list)
    names = {getattr(base, "__name__", "") for base in bases}
    return all(
        base.id in names or any(namespace.get(base.id) is known for known in bases)
        for base in node.bases
        if isinstance(base, ast.Name)
    )


def _refuse_stale_bases(
    node: ast.ClassDef, cls: type, name: str, namespace: dict[str, Any]
) -> None:
    bases = (*cls.__mro__[1:], *getattr(cls, "__orig_bases__", ()))
    for base in node.bases:
        now = namespace.get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(now, type) and not any(now is known for known in bases):
            raise SourceError(
                f"the class {name} was built on an earlier version of {now.__name__}: {AGAIN}"
            )


def _has_text_for_hints(node: ast.ClassDef, cls: type) -> bool:
    # A class without methods has no flags to ask; its annotations tell.
    kept = inspect.get_annotations(cls)
    return any(
        isinstance(part.target, ast.Name)
        and isinstance(kept.get(_mangled(part.target.id, cls)), str)
        and not isinstance(part.annotation, ast.Constant)
        for part in node.body
        if isinstance(part, ast.AnnAssign)
    )


def _may_be(now: Any, written: ast.expr | None) -> bool:
    """Says whether a class attribute may still hold what the body assigned."""
    if written is None:
        return True
    try:
        value = ast.literal_eval(written)
    except (ValueError, TypeError, SyntaxError):
        return True  # not a constant: nothing to compare
    if isinstance(value, list | dict | set):
        return True  # a registry that was filled since: the file starts with it as written
    return type(now) is not type(value) or same_value(now, value)
