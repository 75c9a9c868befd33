"""Gathers what a function of the notebook refers to, by global name."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from .cells import current_shell
from .classes import define_class
from .definitions import Definition, define_function, refuse_unless_function, same_value, unwrapped
from .imports import Imports
from .layout import Contents
from .literals import NotPlain, SourceError, describe, literal
from .names import Uses, find_uses

_OF_EVERY_MODULE = frozenset(
    ["__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__package__", "__loader__"]
)
_TYPES = (type, types.ModuleType, types.GenericAlias, types.UnionType)
_LONGEST_CONSTANT = 1_000_000
_SCALARS = (type(None), bool, int, float, complex, str, bytes)


class Collector:
    """Collects the contents of one file, starting from the function that it is for.

    Attributes:
        contents: What the file holds so far.
    """

    def __init__(self, fn: Any) -> None:
        if isinstance(fn, type):
            module = sys.modules.get(fn.__module__, sys.modules["__main__"])
            self._namespace = vars(module)
        else:
            self._namespace = getattr(unwrapped(fn)[0], "__globals__", {})
        self._values: dict[str, Any] = {}
        self._imports = Imports(set(self._namespace))
        self.contents = Contents(self._imports)

    def take(self, fn: Any) -> str:
        """Takes in the function itself and returns the name that the file gives it."""
        name = getattr(fn, "__name__", None)
        if not isinstance(name, str):
            name = type(fn).__name__
        if not isinstance(fn, type) and not hasattr(fn, "__wrapped__"):
            refuse_unless_function(fn, name)
        if name.isidentifier() and self._imports.bind(name, fn):
            return name  # it lives in a package: the file imports it
        if isinstance(fn, type):
            definition = define_class(fn, name, self._namespace)
        else:
            definition = define_function(fn, name)
        self._values[definition.name] = fn
        self._add_definition(definition.name, definition)
        return definition.name

    def _add_definition(self, name: str, definition: Definition) -> None:
        self.contents.definitions[name] = definition
        before = self.contents.before[name] = []
        after = self.contents.after[name] = []
        uses = find_uses(definition.node, definition.future_annotations)
        for module in sorted(uses.modules):
            self._imports.needs(module)
        for used in uses.now:
            if self.need(used, definition, uses):
                before.append(used)
        for used in uses.later:
            if self.need(used, definition, uses):
                after.append(used)
        for used in uses.hints:
            if used in definition.namespace and self._need_hint(used, definition, uses):
                after.append(used)

    def _need_hint(self, name: str, user: Definition, uses: Uses) -> bool:
        """Takes in a name of an annotation that nothing evaluates, if it can be had."""
        value = user.namespace[name]
        if not isinstance(value, _TYPES) and not self._imports.bind(name, value, user.file):
            return False
        tables: list[dict[str, Any]] = [
            self._values,
            self.contents.constants,
            self.contents.definitions,
            self.contents.before,
            self.contents.after,
        ]
        kept = [dict(table) for table in tables]
        lines, folders = set(self._imports.lines), list(self._imports.folders)
        try:
            return self.need(name, user, uses)
        except SourceError:
            for table, earlier in zip(tables, kept, strict=True):
                table.clear()
                table.update(earlier)
            self._imports.lines, self._imports.folders = lines, folders
            return False

    def need(self, name: str, user: Definition, uses: Uses) -> bool:
        """Takes in what a global name stands for; False if it needs no line of ours."""
        if name in _OF_EVERY_MODULE:
            return False
        missing = object()
        standard = getattr(builtins, name, missing)
        value = user.namespace.get(name, standard)
        if value is missing:
            if name in uses.stored:
                return False  # the function makes it, under a global statement
            raise SourceError(
                f"{user.name} uses {name}, which the notebook does not define: define it first, "
                f"or make it inside the function"
            )
        hidden = getattr(current_shell(), "user_ns_hidden", {})
        if name == "get_ipython" or (hidden.get(name, missing) is value and standard is missing):
            raise SourceError(
                f"{user.name} uses {name} of IPython (a line with % or ! does, too), which ranks "
                f"do not have: leave it out"
            )
        if hidden.get(name, missing) is value:
            return False  # IPython's own open and exit stand for the built-in ones
        if value is standard and not str(getattr(value, "__module__", "")).startswith("IPython"):
            return False
        if name in self._values and not same_value(self._values[name], value):
            raise _two_of(name)
        if name not in self._values:
            self._values[name] = value
            self._add_value(name, value, user)
        self._import_submodules(name, value, uses)
        return True

    def _add_value(self, name: str, value: Any, user: Definition) -> None:
        if type(value) not in _SCALARS and self._imports.bind(name, value, user.file):
            return
        called = f"{name} (used by {user.name})"
        if isinstance(value, type):
            self._add_named(name, value, define_class(value, called, user.namespace))
        elif isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__"):
            self._add_named(name, value, define_function(value, called))
        else:
            self._add_constant(name, value, user)

    def _add_named(self, name: str, value: Any, definition: Definition) -> None:
        own = definition.name
        if own == name:
            self._add_definition(name, definition)
        elif self._values.setdefault(own, value) is not value:
            raise _two_of(own)
        else:  # g = f: written under its own name, then given the other one
            if own not in self.contents.definitions:
                self._add_definition(own, definition)
            self.contents.constants[name] = own
            self.contents.before[name] = [own]

    def _add_constant(self, name: str, value: Any, user: Definition) -> None:
        self.contents.before[name] = []
        try:
            text = literal(value, _References(self, name, user))
        except NotPlain as error:
            inside = error.args[0]
            what = describe(value)
            if inside is not value:
                what += f" with {describe(inside)} in it"
            raise SourceError(
                f"{user.name} uses {name}, {what}, which cannot be written to a file: "
                f"pass it as an argument, or build it inside the function"
            ) from None
        if len(text) > _LONGEST_CONSTANT:
            raise SourceError(
                f"{user.name} uses {name}, a constant of {len(text):,} characters: save it to a "
                f"file of its own and load it inside the function"
            )
        self.contents.constants[name] = text

    def _import_submodules(self, name: str, value: Any, uses: Uses) -> None:
        if isinstance(value, types.ModuleType):
            for chain in sorted(uses.chains):
                if chain[0] == name:
                    self._imports.submodule(name, value, chain[1:])


def _two_of(name: str) -> SourceError:
    return SourceError(
        f"an older and a newer {name} are both in use: run the cells that use {name} again"
    )


class _References:
    """What a constant's expression may refer to."""

    def __init__(self, collector: Collector, name: str, user: Definition) -> None:
        self._collector, self._name, self._user = collector, name, user
        self._imports = collector.contents.imports

    def module(self, name: str) -> str:
        return self._imports.module(name)

    def named(self, value: Any) -> str | None:
        if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            return None
        expression = self._imports.expression(value)
        name = value.__name__
        if expression is None and self._user.namespace.get(name) is value:
            self._collector.need(name, self._user, Uses())
            self._collector.contents.before[self._name].append(name)
            expression = name
        return expression
