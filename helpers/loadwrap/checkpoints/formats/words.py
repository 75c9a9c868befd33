"""Numbers as people read them, and names of a file as one line can show them."""

from __future__ import annotations

import json
import re

_LONGEST = 200  # characters of one name; real ones are shorter


def size_words(nbytes: int) -> str:
    """A size: "812 bytes", "3.4 MB"."""
    if nbytes < 10_000:
        return f"{nbytes} byte{'' if nbytes == 1 else 's'}"
    for unit, factor in (("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12)):
        if nbytes < 1000 * factor or unit == "TB":
            return f"{nbytes / factor:.3g} {unit}"
    raise AssertionError


def quoted(path: str) -> str:
    """A path as it is written in a line of Python, whatever quotes are in it."""
    return json.dumps(path) if path.isascii() else repr(path)


def percent(part: int, whole: int) -> str:
    """A share, never rounded up to the whole: "49 %"."""
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return "under 1 %" if 0 < share < 1 else f"{int(share)} %"


def some(names: list[str], most: int = 3) -> str:
    """The first few of a list: "a, b, c and 7 more"."""
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most:,} more"


def plural(number: int, thing: str) -> str:
    """A count: "1 tensor", "2 tensors"."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y"):
        return f"{number:,} {thing[:-1]}ies"
    return f"{number:,} {thing}{'es' if thing.endswith('s') else 's'}"


def one_line(text: str) -> str:
    """The text with newlines and whatever else cannot be shown escaped, as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str) -> str:
    """Prose with the middle taken out of names that are too long for any line."""
    return re.sub(rf"\S{{{_LONGEST + 1},}}", lambda name: f"{name[0][:120]}…{name[0][-40:]}", text)
