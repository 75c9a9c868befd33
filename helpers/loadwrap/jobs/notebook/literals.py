"""Values of a notebook's constants, written as Python expressions."""

from __future__ import annotations

import math
import pathlib
import re
import types
from typing import Any, Protocol

from ..errors import _Told

_SINGLETONS = {None: "None", True: "True", False: "False"}


class SourceError(_Told, ValueError):
    """A function cannot be written to a file for the ranks; the message says why."""


class NotPlain(Exception):
    """A value that no expression of ours can rebuild."""


class References(Protocol):
    """What an expression may refer to in the file that it is written to."""

    def module(self, name: str) -> str:
        """Returns an expression for an installed module."""

    def named(self, value: Any) -> str | None:
        """Returns an expression for a class or function, or None."""


def literal(value: Any, references: References) -> str:
    """Returns an expression that rebuilds a constant.

    Exact types only: a subclass (an ``IntEnum``, a ``defaultdict``) has more to it than its
    base. Sets are written in a fixed order, so that equal constants give equal text.

    Raises:
        NotPlain: The value, or something inside it, is not a constant. Its argument is the
            value that is not.

    Example:
        >>> from loadwrap.jobs.notebook.imports import Imports
        >>> literal({"lr": 0.1, "stop": float("inf")}, Imports(set()))
        "{'lr': 0.1, 'stop': float('inf')}"
    """
    return _literal(value, references, ())


def _literal(value: Any, refs: References, around: tuple[int, ...]) -> str:
    kind = type(value)
    if value is None or kind is bool:
        return _SINGLETONS[value]
    if kind is int:
        # str() refuses integers of more than some 4,300 digits; hex() takes any.
        return repr(value) if value.bit_length() < 10_000 else hex(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if kind is complex:
        return f"complex({', '.join(_literal(x, refs, ()) for x in (value.real, value.imag))})"
    if kind in (str, bytes, bytearray):
        return repr(value)
    if value is Ellipsis or value is NotImplemented:
        return repr(value)
    if id(value) in around:
        raise NotPlain(value)  # a list that holds itself
    inside = (*around, id(value))
    if kind in (list, tuple, set, frozenset):
        return _sequence(kind, [_literal(item, refs, inside) for item in value])
    if kind is dict:
        pairs = ((_literal(k, refs, inside), _literal(v, refs, inside)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    if kind in (range, slice):
        parts = (value.start, value.stop, value.step)
        return f"{kind.__name__}({', '.join(_literal(part, refs, inside) for part in parts)})"
    if isinstance(value, pathlib.PurePath) and kind.__module__.partition(".")[0] == "pathlib":
        name = kind.__name__ if kind.__name__.startswith("Pure") else "Path"
        return f"{refs.module('pathlib')}.{name}({str(value)!r})"
    if kind is re.Pattern:
        return f"{refs.module('re')}.compile({value.pattern!r}, {value.flags})"
    if kind.__module__ == "torch":
        return _torch_literal(value, refs)
    if kind is types.GenericAlias:  # the alias of a type: tuple[Tensor, int]
        arguments = ", ".join(_literal(a, refs, inside) for a in value.__args__) or "()"
        return f"{_literal(value.__origin__, refs, inside)}[{arguments}]"
    if kind is types.UnionType:
        return " | ".join(_literal(a, refs, inside) for a in value.__args__)
    expression = refs.named(value)
    if expression is None:
        raise NotPlain(value)
    return expression


def _sequence(kind: type, items: list[str]) -> str:
    if kind in (set, frozenset):
        items = sorted(items)
    inner = ", ".join(items)
    if kind is list:
        return f"[{inner}]"
    if kind is tuple:
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    if kind is set:
        return f"{{{inner}}}" if items else "set()"
    return f"frozenset([{inner}])"


def _torch_literal(value: Any, refs: References) -> str:
    # By name, because this module never imports torch: torch.float32, torch.device("cpu").
    kind = type(value).__name__
    if kind in ("dtype", "layout", "memory_format"):
        return f"{refs.module('torch')}.{str(value).removeprefix('torch.')}"
    if kind == "device":
        return f"{refs.module('torch')}.device({str(value)!r})"
    if kind == "Size":
        return f"{refs.module('torch')}.Size({list(value)})"
    expression = refs.named(value)
    if expression is None:
        raise NotPlain(value)
    return expression


def describe(value: Any) -> str:
    """Says what a value is, in a few words: ``"a torch.Tensor"``, ``"a Net object"``."""
    kind = type(value)
    if isinstance(value, types.ModuleType):
        return "a module that cannot be imported"
    if isinstance(value, type):
        return "a class"
    if hasattr(value, "fileno") and hasattr(value, "read"):
        return "an open file"
    name = kind.__qualname__.rpartition(".")[2]
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name} object" if kind.__module__ == "__main__" else f"{article} {name}"
