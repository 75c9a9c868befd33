"""Rebuilds both sides' names from the text of a load error alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Shape = tuple[int, ...] | None


@dataclass
class LoadError:
    """What one load error in a log says.

    Attributes:
        model: The class it was raised for, or "" where the log does not say.
        missing: Names the model has and the file lacks.
        unexpected: Names the file has and the model lacks.
        shapes: Names both have, with the shape in the file and in the model.
        ranks: The ranks that said it, where the log tells.
        cut: Whether the log shows a part of the names only.
        silent: Whether it raised nothing: a log line or a return value.
    """

    model: str = ""
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[Shape, Shape]] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    cut: bool = False
    silent: bool = False

    def sides(self) -> tuple[dict[str, Shape], dict[str, Shape]]:
        """Names and shapes of the file and of the model, as far as the text tells."""
        file = {**dict.fromkeys(self.unexpected), **{n: s[0] for n, s in self.shapes.items()}}
        model = {**dict.fromkeys(self.missing), **{n: s[1] for n, s in self.shapes.items()}}
        return file, model

    def key(self) -> tuple[object, ...]:
        """Equal for two ranks' copies of one error."""
        return (self.model, *self.missing, "|", *self.unexpected, "|", *self.shapes)


_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"^\[(?:rank|default)?(\d{1,6})\]:? ?")
_HEAD = re.compile(r"Error\(s\) in loading state_dict for ([\w.]+)")
_MISSING = re.compile(r"Missing key\(s\) in state_dict: (.*)")
_UNEXPECTED = re.compile(r"Unexpected key\(s\) in state_dict: (.*)")
_MISMATCH = re.compile(
    r"size mismatch for ([^\s:]+): copying a param with shape (?:torch\.Size\()?\[?([\d, ]*)\]?\)? "
    r"from checkpoint, the shape in current model is (?:torch\.Size\()?\[?([\d, ]*)"
)
_RETURNED = re.compile(
    r"(?:_IncompatibleKeys\()?missing_keys=(\[[^\]]*\]?),? ?(?:unexpected_keys=(\[[^\]]*\]?))?"
)
_QUOTED = re.compile(r'"([^"\s]{1,1000})"')
_MM_UNEXPECTED = re.compile(r"unexpected key(?:s)? in source state_dict: (.*)")
_MM_MISSING = re.compile(r"missing key(?:s)? in source state_dict: (.*)")
_HF_UNUSED = re.compile(r"Some weights of the model checkpoint .*? were not used.*?: (\[.*)")
_HF_NEW = re.compile(r"Some weights of ([\w.]+) were not initialized from .*?: (\[.*)")


def read_errors(text: str) -> list[LoadError]:
    """Every load error in a log, each once however many ranks said it, in the log's order."""
    found: list[LoadError] = []
    current: dict[int, LoadError] = {}
    for rank, line in _lines(text):
        head = _HEAD.search(line)
        if head:
            current[rank] = _start(found, rank, head[1])
        for pattern, names in ((_MISSING, "missing"), (_UNEXPECTED, "unexpected")):
            told = pattern.search(line)
            if told:
                error = current.get(rank) or _start(found, rank, "")
                current[rank] = error
                getattr(error, names).extend(_QUOTED.findall(told[1]))
                error.cut = error.cut or _cut(told[1])
        mismatch = _MISMATCH.search(line)
        if mismatch:
            error = current.get(rank) or _start(found, rank, "")
            current[rank] = error
            error.shapes[mismatch[1]] = (_shape(mismatch[2]), _shape(mismatch[3]))
        _quiet(line, rank, found)
    return _merged([error for error in found if error.missing or error.unexpected or error.shapes])


def _quiet(line: str, rank: int, found: list[LoadError]) -> None:
    """Reports of loaders that go on: strict=False, MMEngine, transformers."""
    returned = _RETURNED.search(line)
    if returned:
        error = _start(found, rank, "", silent=True)
        error.missing, cut = _listed(returned[1])
        error.unexpected, also = _listed(returned[2] or "[]")
        error.cut = cut or also
    for pattern, names in ((_MM_UNEXPECTED, "unexpected"), (_MM_MISSING, "missing")):
        told = pattern.search(line)
        if told:
            error = _together(found, rank, names)
            getattr(error, names).extend(re.findall(r"[\w.\-]+", told[1]))
    unused = _HF_UNUSED.search(line)
    if unused:
        error = _together(found, rank, "unexpected")
        error.unexpected, error.cut = _listed(unused[1])
    new = _HF_NEW.search(line)
    if new:
        error = _together(found, rank, "missing")
        error.model = new[1]
        error.missing, error.cut = _listed(new[2])


def _together(found: list[LoadError], rank: int, names: str) -> LoadError:
    """The report that this line belongs to: the last silent one without such names."""
    for error in reversed(found):
        if error.silent and rank in (error.ranks or {-1}) and not getattr(error, names):
            return error
    return _start(found, rank, "", silent=True)


def _start(found: list[LoadError], rank: int, model: str, silent: bool = False) -> LoadError:
    error = LoadError(model, silent=silent)
    if rank >= 0:
        error.ranks.add(rank)
    found.append(error)
    return error


def _merged(errors: list[LoadError]) -> list[LoadError]:
    merged: dict[tuple[object, ...], LoadError] = {}
    for error in errors:
        known = merged.setdefault(error.key(), error)
        known.ranks |= error.ranks
    return list(merged.values())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for line in _ANSI.sub("", text).splitlines():
        rank = _RANK.match(line)
        # Notebooks and JSON show a tab or a newline as two characters.
        plain = (line[rank.end() :] if rank else line).replace("\\t", " ")
        for piece in plain.split("\\n"):
            yield (int(rank[1]) if rank else -1), piece


def _shape(sizes: str) -> Shape:
    return tuple(int(size) for size in sizes.split(",") if size.strip().isdecimal())


def _cut(listed: str) -> bool:
    """Whether a list of quoted names breaks off: an ellipsis, or no closing quote and full stop."""
    end = listed.rstrip()
    return "..." in listed or "…" in listed or end.count('"') % 2 == 1 or not end.endswith('".')


def _listed(text: str) -> tuple[list[str], bool]:
    """The names of a Python list as printed; and whether it was cut."""
    end = text.find("]")
    if end >= 0:
        try:
            names = ast.literal_eval(text[: end + 1])
            return [name for name in names if isinstance(name, str)], "..." in names
        except (ValueError, SyntaxError, TypeError):
            pass
    return re.findall(r"'([^'\s]+)'", text), True
