"""The command ``loadwrap doctor``; ``python -m loadwrap.doctor`` is the same.

Answers what a checkpoint is, what lies in it, and whether it fits a model, without executing
anything of it. It imports no torch unless it has names to match or a file to write.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .checkpoints.doctoring.arguments import check, parser
from .checkpoints.doctoring.consultation import consult


def main(arguments: Sequence[str] | None = None, program: str = "python -m loadwrap.doctor") -> int:
    """Examines what the arguments name.

    Args:
        arguments: The command line without the program; ``sys.argv[1:]`` if None.
        program: How the program is called in its messages.

    Returns:
        0 the weights fit as they are, or the file is readable where there is nothing to compare
        with; 1 a mismatch; 2 not readable or not safe to read.

    Example:
        >>> from loadwrap.doctor import main
        >>> main(["no_such_file.pt"])
        2
    """
    made = parser(program)
    options = made.parse_args(arguments)
    check(options, made)
    try:
        return consult(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def command() -> int:
    """The console script ``loadwrap``, of which ``doctor`` is the one subcommand."""
    if sys.argv[1:2] == ["doctor"]:
        return main(sys.argv[2:], "loadwrap doctor")
    if sys.argv[1:] == ["--version"]:
        from . import __version__

        print(f"loadwrap {__version__}")
        return 0
    asked = sys.argv[1:] in ([], ["-h"], ["--help"])
    usage = "usage: loadwrap doctor FILE [...]   explain a checkpoint (loadwrap doctor --help)"
    print(usage, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
