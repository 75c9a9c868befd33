"""Makes a forked process what ``python -u script.py`` would have been, and runs the script.

A process forked from a warm one differs from a fresh interpreter in many small ways. Each is
put right here, and tested warm against cold. What cannot be put right (a user's file that
bears the name of a module that is loaded already) is left to a real interpreter: the process
turns itself into one.

Random state, buffers, handlers, ``sys.path`` and ``__main__`` are set anew; the start method of
multiprocessing is untouched, because the host is no process of multiprocessing's. The script
runs at the bottom of this interpreter's stack, so it ends as any script does (``ending.py``):
exit codes, ``atexit``, threads and the final clean-up are Python's own.

One thing stays shared: the ranks of one host have one hash seed, so a set of strings has one
order on all of them, where fresh interpreters would differ.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import json
import os
import random
import sys
import time
import traceback
import types
from dataclasses import dataclass
from typing import Any

from .. import folder
from . import ending, stacks

_PACKAGE = __name__.split(".")[0]


@dataclass(frozen=True)
class Loaded:
    """What the host has loaded, taken down once, in the host.

    To look at the names of two thousand modules would cost each rank 8 ms, most of it to copy
    the pages on which they lie.

    Attributes:
        modules: All modules but this package's.
        ours: This package's.
        names: What a fresh interpreter would first look for beside the script.
    """

    modules: frozenset[str]
    ours: tuple[str, ...]
    names: frozenset[str]

    @classmethod
    def since(cls, started: frozenset[str]) -> Loaded:
        """Takes it down; ``started``: the modules that an interpreter has before any script."""
        ours = tuple(name for name in sys.modules if name.split(".")[0] == _PACKAGE)
        modules = frozenset(sys.modules) - {*ours, "__main__"}
        return cls(modules, ours, frozenset(name.split(".")[0] for name in modules) - started)


def main(message: dict[str, Any], out: int, err: int, loaded: Loaded) -> None:
    """Runs one rank; returns or raises as the script does.

    Args:
        message: ``words`` (interpreter, switches, script, arguments), ``env``, ``cwd``.
        out: Descriptor that becomes standard output.
        err: Descriptor that becomes standard error.
        loaded: What the host has loaded.
    """
    for standard, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    inherited_path = _entries(os.environ)
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    executable, *words = message["words"]
    switches = [word for word in words[:2] if word in ("-u", "-m")]
    target, *arguments = words[len(switches) :]
    as_module = "-m" in switches
    first = os.getcwd() if as_module else os.path.dirname(os.path.realpath(target))
    added = [entry for entry in _entries(os.environ) if entry not in inherited_path]
    if _hide_a_module([first, *added], loaded.names):
        os.execve(executable, [executable, *words], os.environ)
    _fresh_streams()
    _fresh_random_state()
    _fresh_memory(executable, words)
    _fresh_path(first, inherited_path)
    stacks.register()
    _forget_record()
    for name in loaded.ours:
        del sys.modules[name]  # a user's own loadwrap.py beside the script is found first
    sys.argv = [target, *arguments]
    try:
        _run_module(target) if as_module else _run_script(target)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    except BaseException as error:
        _leave_record(error)
        _hide_our_frames()
        if type(error) is KeyboardInterrupt:
            ending.end_by_interrupt(error)
        raise
    ending.leave_if_nothing_is_lost(loaded.modules)


def _entries(environment: Any) -> list[str]:
    """Returns the folders of PYTHONPATH, as Python puts them on its path."""
    given = environment.get("PYTHONPATH", "")
    return list(dict.fromkeys(map(os.path.abspath, given.split(os.pathsep)))) if given else []


def _hide_a_module(folders: list[str], loaded: frozenset[str]) -> bool:
    """Tells whether a folder holds a file that a fresh interpreter would import instead of ours."""
    for path in folders:
        try:
            names = os.listdir(path)
        except OSError:
            continue
        for name in names:
            stem, _, suffix = name.partition(".")
            if stem in loaded and (
                suffix.split(".")[-1] in ("py", "pyc", "so")
                or os.path.isfile(os.path.join(path, name, "__init__.py"))
            ):
                return True
    return False


def _fresh_streams() -> None:
    """Standard streams as ``python -u`` has them: nothing is held back, nothing lost in a kill."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "w", closefd=False)
        raw.name = f"<{name}>"
        encoding, errors = old.encoding, old.errors
        stream = io.TextIOWrapper(raw, encoding, errors, write_through=True)
        stream.mode = "w"  # type: ignore[misc]  # Python sets it, and some code asks
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _fresh_random_state() -> None:
    """Every rank would otherwise draw the same "random" numbers, in this job and the next."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
    if process := sys.modules.get("multiprocessing.process"):
        process.current_process().authkey = os.urandom(32)


def _fresh_memory(executable: str, words: list[str]) -> None:
    """What the standard library noted when it was loaded, from the host's surroundings."""
    sys.orig_argv[:] = [executable, *words]
    if tempfile := sys.modules.get("tempfile"):
        vars(tempfile)["tempdir"] = None  # TMPDIR may be another
    if process := sys.modules.get("multiprocessing.process"):
        vars(process)["ORIGINAL_DIR"] = os.getcwd()


def _fresh_path(first: str, inherited: list[str]) -> None:
    known = [entry for entry in sys.path if entry not in inherited]
    environment = _entries(os.environ)
    safe = bool(os.environ.get("PYTHONSAFEPATH"))
    sys.path[:] = [*([] if safe else [first]), *environment, *known]


def _run_script(target: str) -> None:
    path = os.path.abspath(target)
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        __cached__=None,
    )
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    sys.modules["__main__"] = module
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def _run_module(name: str) -> None:
    import runpy

    sys.modules["__main__"] = types.ModuleType("__main__")
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what python -m itself calls


def _users_part(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Returns the traceback from the first frame on that is not this library's."""
    ours = {__file__, sys._getframe().f_code.co_filename, "<string>"}
    ours.add(os.path.join(os.path.dirname(__file__), "host.py"))
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace


def _hide_our_frames() -> None:
    """Lets the script's own hook, or Python's, print the exception without our frames."""
    hook = sys.excepthook

    def without_ours(
        kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        trace = _users_part(trace)
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = without_ours


def _forget_record() -> None:
    """Removes what an earlier attempt of this rank left, before torchrun restarted it."""
    path = folder.error_file(os.environ[folder.RUN_ENV], int(os.environ["RANK"]))
    path.unlink(missing_ok=True)


def _leave_record(error: BaseException) -> None:
    """Writes when and how this rank failed: seconds, as torchrun notes them, are too coarse."""
    rank = int(os.environ["RANK"])
    record = {
        "rank": rank,
        "time_ns": time.time_ns(),
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(
            traceback.format_exception(type(error), error, _users_part(error.__traceback__))
        ),
    }
    path = folder.error_file(os.environ[folder.RUN_ENV], rank)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(record))
        os.replace(part, path)
    except OSError:
        return  # no room for it; the traceback on standard error remains
