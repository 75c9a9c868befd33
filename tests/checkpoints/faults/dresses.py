"""The scripts of the faults, and the names of the cases in them."""

import ast
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def decorated(script, decorator):
    """Returns the names of a script's functions that a decorator marks, without running it."""
    tree = ast.parse((SCRIPTS / script).read_text(encoding="utf-8"))
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in
                     node.decorator_list]  # fmt: skip
            if any(isinstance(mark, ast.Name) and mark.id == decorator for mark in marks):
                names.append(node.name)
    return names
