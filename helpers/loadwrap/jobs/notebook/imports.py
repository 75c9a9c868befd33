"""The import lines of a file that holds code from a notebook."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import linecache
import os
import site
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .cells import executed_cells

_MISSING = object()


class Imports:
    """Collects the import lines of one file.

    Every line is checked before it is taken: in this process it yields the very same
    object. The notebook's own import statements are tried first, so that the file
    imports a name from where its user did.

    Attributes:
        lines: The lines.
        folders: Folders beside the notebook that modules come from: a rank starts
            elsewhere and must be told of them.
    """

    def __init__(self, taken: set[str]) -> None:
        """Starts empty; ``taken`` (kept, not copied) holds names not to bind."""
        self.lines: set[str] = set()
        self.folders: list[str] = []
        self._taken = taken

    def bind(self, name: str, value: Any, file: str | None = None) -> bool:
        """Adds the line that binds ``name`` to ``value``; False if there is none.

        Args:
            name: The name, as the notebook's code uses it.
            value: A module, or anything that a module holds.
            file: File or cell whose import statements are tried first.
        """
        if isinstance(value, types.ModuleType):
            module = _module_name(value)
            if module is None:
                return False
            self._add(f"import {module}" + ("" if module == name else f" as {name}"), module)
            return True
        for module, attribute in self._homes(name, value, file):
            line = f"from {module} import {attribute}"
            self._add(line + ("" if attribute == name else f" as {name}"), module)
            return True
        return False

    def submodule(self, name: str, module: types.ModuleType, chain: tuple[str, ...]) -> None:
        """Imports the submodules that ``name.a.b`` reads: ``import a`` need not load ``a.b``."""
        path = module.__name__
        for attribute in chain:
            deeper = sys.modules.get(f"{path}.{attribute}")
            if deeper is None or getattr(sys.modules[path], attribute, None) is not deeper:
                break
            path = f"{path}.{attribute}"
        if path == module.__name__:
            return
        if name == module.__name__:
            self._add(f"import {path}", path)
        else:
            self.module(path)

    def module(self, name: str) -> str:
        """Imports a module under a name of our own, and returns that name."""
        alias = "_" + name.replace(".", "_")
        while alias in self._taken:
            alias = f"_{alias}"
        self._add(f"import {name} as {alias}", name)
        return alias

    def expression(self, value: Any) -> str | None:
        """Returns an expression for a class or function of some module, or None."""
        name = getattr(value, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():
            return None
        if getattr(builtins, name, _MISSING) is value and name not in self._taken:
            return name
        for module, attribute in self._homes(name, value, None):
            return f"{self.module(module)}.{attribute}"
        return None

    def needs(self, module: str) -> None:
        """Notes that code imports a module by itself, in case it lies beside the notebook."""
        folder = _folder_beside_notebook(module.partition(".")[0])
        if folder is not None and folder not in self.folders:
            self.folders.append(folder)

    def _add(self, line: str, module: str) -> None:
        self.lines.add(line)
        self.needs(module)

    def _homes(self, name: str, value: Any, file: str | None) -> Iterator[tuple[str, str]]:
        """Yields (module, attribute) that hold the value, the most natural first."""
        for module, attribute in _import_statements(name, file):
            # getattr, because a package may make its names on demand; it did so already.
            if getattr(sys.modules.get(module), attribute, _MISSING) is value:
                yield module, attribute
        home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        own_name = own if isinstance(own, str) else getattr(value, "__name__", None)
        if not callable(value) or not isinstance(own_name, str):
            return  # an object is imported only if the notebook imported it
        if isinstance(home, str) and home != "__main__" and own_name.isidentifier():
            if vars(sys.modules.get(home, object)).get(own_name, _MISSING) is value:
                yield home, own_name
        if home == "__main__":
            return
        # Built-in functions such as torch.relu do not say where they are public.
        own_name = own_name.rpartition(".")[2]
        found = [
            module
            for module, loaded in sys.modules.items()
            if isinstance(loaded, types.ModuleType)
            and module != "__main__"
            and vars(loaded).get(own_name, _MISSING) is value
        ]
        for module in sorted(found, key=lambda module: ("._" in f".{module}", len(module), module)):
            yield module, own_name


def _module_name(module: types.ModuleType) -> str | None:
    """Returns the name under which another process can import a module."""
    if sys.modules.get(module.__name__) is module:
        names = [module.__name__]
    else:
        names = sorted(name for name, loaded in sys.modules.items() if loaded is module)
    for name in names:
        if name != "__main__" and getattr(sys.modules[name], "__spec__", None) is not None:
            return name
    return None


def _import_statements(name: str, file: str | None) -> Iterator[tuple[str, str]]:
    cells = executed_cells()
    for filename in ([file] if file else []) + [cell for cell in cells if cell != file]:
        for module, attribute, bound in _imports_of("".join(linecache.getlines(filename))):
            if bound == name:
                yield module, attribute
            elif bound == "*":
                yield module, name


@functools.lru_cache(maxsize=512)
def _imports_of(text: str) -> tuple[tuple[str, str, str], ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (node.module, alias.name, alias.asname or alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    )


def _folder_beside_notebook(top: str) -> str | None:
    """Returns the folder of a module that only this process's sys.path leads to."""
    loaded = sys.modules.get(top)
    try:
        spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        places = [Path(place).parent for place in spec.submodule_search_locations]
    elif spec.has_location and spec.origin:
        places = [Path(spec.origin).parent]
    else:
        return None  # built in, or frozen
    ours = {Path(entry).resolve() for entry in sys.path}
    for place in places:
        if place.resolve() in ours and place.resolve() not in _installed():
            return str(place.resolve())
    return None


@functools.cache
def _installed() -> frozenset[Path]:
    places = [*sysconfig.get_paths().values(), site.getusersitepackages()]
    places += [*getattr(site, "getsitepackages", list)(), os.path.dirname(os.__file__)]
    places.append(sysconfig.get_config_var("DESTSHARED") or "")
    return frozenset(Path(place).resolve() for place in places if place)
