"""Starts a helper process of ours with a clean path: nothing in its folder can get in its way."""

from __future__ import annotations

import sys
from pathlib import Path

_PARENT = str(Path(__file__).resolve().parents[2])

# With -c Python puts the working folder first on the path, where a user's json.py may lie. It
# goes; the folder of this package comes last, for the case that it is not installed.
_CODE = """\
import sys
started = frozenset(sys.modules)
if sys.path and sys.path[0] == "":
    del sys.path[0]
if {parent!r} not in sys.path:
    sys.path.append({parent!r})
from loadwrap.jobs.{module} import main
main(started)
"""


def command(module: str, *arguments: str, light: bool = False) -> list[str]:
    """Returns the command that runs ``loadwrap.jobs.<module>.main()``.

    Args:
        module: The module's name within this room.
        *arguments: Its ``sys.argv[1:]``.
        light: Leave out site-packages; for a process that needs the standard library alone.
    """
    flags = ["-S", "-E"] if light else []
    return [sys.executable, *flags, "-c", _CODE.format(parent=_PARENT, module=module), *arguments]
