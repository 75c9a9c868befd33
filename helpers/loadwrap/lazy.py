"""Names that a package offers and imports only when somebody uses them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def offer(
    package: str, namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: Its ``__name__``.
        namespace: Its ``globals()``, where a name stays once it has been imported.
        homes: ``{name: module within the package}``.

    Example:
        >>> here = {}
        >>> get, names = offer("json", here, {"JSONDecoder": "decoder"})
        >>> get("JSONDecoder").__name__, sorted(here)
        ('JSONDecoder', ['JSONDecoder'])
    """

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        namespace[name] = value
        return value

    def dir_() -> list[str]:
        return sorted({*namespace, *homes})

    return getattr_, dir_
