"""Reads tracebacks that ranks printed: finds the last one and keeps the user's frames."""

from __future__ import annotations

import re

from .stacks import is_users

_START = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# init_process_group installs a hook that puts the rank before each line of a traceback.
_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]: ?", re.MULTILINE)
# A log line of torch's C++ side, which may follow the traceback: [W1129 18:50:59.123 …
_CPP_LOG = re.compile(r"^(?:\[rank\d+\]:)?\[[WIEF]\d{4} .*\n?", re.MULTILINE)
# What the C++ runtime prints last when a thread of gloo's is still there as the process ends.
_ABORTED = re.compile(r"^terminate called .*", re.MULTILINE | re.DOTALL)
_ANY_FRAME = re.compile(r"  \S.*, line \d+, in ")  # also of a cell, which is no file
_FRAME = re.compile(r'  File "(?P<file>.*)", line \d+, in ')


def shortened(line: str, most: int = 2000) -> str:
    """Returns a line, or its beginning where it is too long for a notebook to show.

    Example:
        >>> shortened("x" * 50, most=10)
        'xxxxxxxxxx … (50 characters)'
    """
    return line if len(line) <= most else f"{line[:most]} … ({len(line):,} characters)"


def last_traceback(text: str) -> str:
    """Returns the last traceback in a rank's output, chained ones with it; else "".

    Example:
        >>> printed = ["step 1", "Traceback (most recent call last):", "KeyError: 'x'"]
        >>> last_traceback(chr(10).join(printed)).splitlines()
        ['Traceback (most recent call last):', "KeyError: 'x'"]
    """
    text = _CPP_LOG.sub("", _PREFIX.sub("", text))
    text = "\n".join(map(shortened, text.split("\n")))
    start = text.rfind(_START)
    if start < 0:
        return ""
    text = text[:start] + _ABORTED.sub("", text[start:])
    while True:
        before = text[:start].rstrip()
        if not before.endswith(_CHAINED):
            return text[start:].rstrip()
        earlier = text.rfind(_START, 0, start)
        if earlier < 0:
            return text[start:].rstrip()
        start = earlier


def last_line(traceback: str) -> str:
    """Returns the line that names the exception, with the rest of its message after it."""
    lines = traceback.splitlines()
    last_frame = max((n for n, line in enumerate(lines) if _ANY_FRAME.match(line)), default=-1)
    after = last_frame + 1  # a message may have indented lines too: it begins with the first that
    while after < len(lines) and not lines[after][:1].strip():  # is not, below the last frame
        after += 1
    message = [line for line in lines[after:] if line.strip()]
    if message:
        return "\n".join(message)
    named = [line for line in lines if line[:1].strip() and line != _START]
    return named[-1] if named else ""


def last_words(text: str) -> str:
    """Returns the last line of a rank's output that its script wrote, at most 300 characters.

    Example:
        >>> last_words(chr(10).join(["usage: train.py", "train.py: error: no data"]))
        'train.py: error: no data'
    """
    lines = _CPP_LOG.sub("", _PREFIX.sub("", text)).split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def users_frames(traceback: str) -> str:
    """Drops the frames of Python's and of installed packages; all stay if none is the user's."""
    lines = traceback.splitlines()
    kept: list[str] = []
    keep, any_of_the_user = True, False
    for line in lines:
        if match := _FRAME.match(line):
            keep = is_users(match["file"])
            any_of_the_user |= keep
        elif not line.startswith("  "):
            keep = True
        if keep:
            kept.append(line)
    return "\n".join(kept) if any_of_the_user else traceback
