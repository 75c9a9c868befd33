"""Builds a model on the meta device and writes down its names and shapes.

Runs in a process of its own, whose working folder and ``sys.path`` are the user's; its source is
handed to ``python -c``, so it imports nothing of this package.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from typing import Any


def find(spec: str) -> Any:
    """What ``MODULE:CALLABLE`` names; MODULE may be a path to a .py file."""
    module_name, _, attribute = spec.rpartition(":")
    if module_name.endswith(".py"):
        folder = os.path.dirname(os.path.abspath(module_name))
        if folder not in sys.path:
            sys.path.insert(0, folder)
        name = os.path.splitext(os.path.basename(module_name))[0]
        source = importlib.util.spec_from_file_location(name, module_name)
        if source is None or source.loader is None or not os.path.exists(module_name):
            raise FileNotFoundError(f"there is no file {module_name}")
        module = importlib.util.module_from_spec(source)
        sys.modules[name] = module
        source.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    found: Any = module
    for step in attribute.split("."):
        found = getattr(found, step)
    return found


def build(found: Any) -> tuple[Any, str]:
    """The model, and the device it was built on."""
    import torch

    if isinstance(found, torch.nn.Module):
        return found, "as it was"
    try:
        with torch.device("meta"):
            return found(), "meta"
    except Exception:
        # A constructor that looks at numbers cannot work without any.
        return found(), "cpu"


def describe(model: Any) -> list[list[Any]]:
    """Name, shape, dtype, identity and sort of every tensor of its state dict."""
    import torch

    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    rows: list[list[Any]] = []
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, torch.Tensor):
            continue
        lazy = torch.nn.parameter.is_lazy(value)
        shape = None if lazy else list(value.shape)
        sort = "parameter" if name in parameters else "buffer"
        rows.append([name, shape, str(value.dtype).removeprefix("torch."), id(value), sort])
    return rows


def main() -> None:
    """Reads the spec and the name of the answer file from the command line."""
    spec, answer = sys.argv[1:3]
    own = os.getpid()
    try:
        model, device = build(find(spec))
        import torch

        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"{spec} gave a {type(model).__name__}, not an nn.Module")
        told: dict[str, Any] = {"tensors": describe(model), "device": device}
        told["class"] = type(model).__name__
    except BaseException as error:  # SystemExit of a script without a main guard, too
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename != "<string>"]  # that is this file
        theirs = [frame for frame in theirs if not frame.filename.startswith("<frozen")]
        last = theirs[-1] if theirs else None
        where = f"{os.path.relpath(last.filename)}:{last.lineno}" if last else ""
        told = {"error": type(error).__name__, "message": str(error)[:500], "where": where}
    if os.getpid() != own:
        return  # a fork that the builder left comes by here as well
    with open(f"{answer}.part", "w") as file:
        json.dump(told, file)
    os.replace(f"{answer}.part", answer)  # whoever waits for it finds it whole


if __name__ == "__main__":
    main()
