"""Puts constants and definitions into an order in which a file can run them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .cells import Piece, place_label
from .definitions import AGAIN, Definition
from .imports import Imports
from .literals import SourceError


@dataclass
class Contents:
    """What a file binds, by global name, and what must come before what.

    Attributes:
        imports: The import lines.
        constants: Expressions.
        definitions: Functions and classes.
        before: Names that must be bound before a name's own statement runs.
        after: Names that its code reads when it is called.
    """

    imports: Imports
    constants: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    before: dict[str, list[str]] = field(default_factory=dict)
    after: dict[str, list[str]] = field(default_factory=dict)

    def render(self, name: str, folder: Path) -> tuple[str, list[Piece]]:
        """Returns the text of a file in ``folder`` that defines ``name``, and its lines' places.

        Raises:
            SourceError: Two definitions each need the other to be made first.
        """
        lines = [
            f"# {name} from the notebook, with what it uses. Written by as_file of loadwrap:",
            "# edit the cell, not this file.",
        ]
        # One for all: an annotation that nobody asked to be text becomes text, no more.
        if any(definition.future_annotations for definition in self.definitions.values()):
            lines.append("from __future__ import annotations")
        if self.imports.folders:
            # Relative to the file, so that the text is the same wherever the notebook lies.
            here = os.path.realpath(folder)
            folders = [os.path.relpath(path, here) for path in self.imports.folders]
            lines += [
                "",
                "import os as _os",
                "import sys as _sys",
                "",
                "_here = _os.path.dirname(_os.path.abspath(__file__))",
                f"for _folder in {folders!r}:  # where the notebook imports from",
                "    _folder = _os.path.realpath(_os.path.join(_here, _folder))",
                "    if _folder not in map(_os.path.realpath, _sys.path):",
                "        _sys.path.insert(1, _folder)",
            ]
        lines += ["", *sorted(self.imports.lines)] if self.imports.lines else []
        pieces: list[Piece] = []
        blank = 1
        for part in self._order():
            if part in self.constants:
                lines += [""] * blank + [f"{part} = {self.constants[part]}"]
                blank = 0
                continue
            definition = self.definitions[part]
            lines += ["", ""]
            if definition.lines[0][:1].isspace():
                lines.append("if True:")  # keeps the lines as they are, and what they quote
            first = len(lines) + 1
            lines += definition.lines
            label = place_label(definition.file, definition.name)
            pieces.append(Piece(first, len(lines), label, definition.first))
            if definition.name != part:
                lines.append(f"{part} = {definition.name}")
            blank = 2
        return "\n".join(lines) + "\n", pieces

    def _order(self) -> list[str]:
        placed: dict[str, None] = {}

        def place(name: str, doing: tuple[str, ...]) -> None:
            if name in placed:
                return
            if name in doing:
                raise SourceError(
                    f"{doing[-1]} was made with an earlier version of {name}: {AGAIN}"
                )
            doing = (*doing, name)
            for needed in self._known(self.before.get(name, ())):
                place(needed, doing)
            # A decorator or default may call functions, which need their own names then.
            for called in self._reach(self.before.get(name, ()), later=True):
                if not {called, *self._reach([called], later=False)} & set(doing):
                    place(called, doing)
            placed[name] = None

        for name in self.constants:
            if not self.before.get(name):
                place(name, ())
        # Found from the outside in, written from the inside out: the function itself is last.
        for name in reversed([*self.definitions, *self.constants]):
            place(name, ())
        return list(placed)

    def _known(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.definitions or name in self.constants]

    def _reach(self, names: Iterable[str], later: bool) -> list[str]:
        """Returns what can be reached from names, through calls too if ``later``."""
        found: dict[str, None] = {}
        waiting = self._known(names)
        while waiting:
            name = waiting.pop(0)
            if name in found:
                continue
            found[name] = None
            waiting += self._known(self.before.get(name, ()))
            if later:
                waiting += self._known(self.after.get(name, ()))
        return list(found)
