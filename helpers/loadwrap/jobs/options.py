"""From the keywords of a call to torchrun's command line, with every mistake named first.

Nothing here imports torch: a mistake should cost a tenth of a second, not the five that
torchrun needs to import torch and print its forty lines.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import processes
from .environment import environment_of
from .errors import LaunchError

# torchrun's own options, with underscores (a test compares this with torchrun's parser).
# True: takes a value. False: a switch.
OPTIONS: dict[str, bool] = {
    **dict.fromkeys(
        (
            *("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id"),
            *("rdzv_conf", "max_restarts", "monitor_interval", "start_method"),
            *("event_log_handler", "role", "log_dir", "redirects", "tee"),
            *("local_ranks_filter", "duplicate_stdout_filters", "duplicate_stderr_filters"),
            *("node_rank", "master_addr", "master_port", "local_addr", "logs_specs"),
            *("numa_binding", "signals_to_handle", "shutdown_timeout"),
        ),
        True,
    ),
    **dict.fromkeys(("standalone", "module", "no_python", "run_path", "virtual_local_rank"), False),
}
WHOLE = {"max_restarts": 2**31, "node_rank": 2**31, "master_port": 65535, "shutdown_timeout": 2**31}
"""The options that take a whole number, with the largest; torchrun's parser wants an integer."""

_SHORT = {"m": "module", "r": "redirects", "t": "tee"}
_OURS = {"log_dir", "redirects", "tee"}
# What torchrun does with these cannot be told to a forked rank: such a job starts cold.
_COLD_ONLY = {"no_python", "run_path", "numa_binding", "logs_specs", "start_method"}
_PLACED = {"nnodes", "node_rank", "master_addr", "master_port", "standalone"} | {
    name for name in OPTIONS if name.startswith("rdzv_")
}

# Least memory of one more rank that has imported torch, in bytes: measured 40 MB (warm, shared)
# and 215 MB (cold), before it holds any model.
_RANK_BYTES = {True: 40 * 2**20, False: 200 * 2**20}


@dataclass(frozen=True)
class Launch:
    """One checked call, ready to start.

    Attributes:
        script: The script as the caller wrote it, or a module's name.
        arguments: What follows the script.
        options: torchrun's options; switches are True.
        environment: The ranks' whole environment, run folder apart.
        added: The variables of it that a terminal would have to set as well.
    """

    script: str
    arguments: tuple[str, ...]
    options: Mapping[str, str | bool]
    environment: Mapping[str, str]
    added: Mapping[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether it is an ordinary job on this machine alone, placed by nobody."""
        return not (_PLACED - {"standalone"}) & self.options.keys()

    @property
    def restarts(self) -> bool:
        """Whether torchrun may restart the ranks."""
        return str(self.options.get("max_restarts", "0")) != "0"

    @property
    def forkable(self) -> bool:
        """Whether forked ranks can do what the options ask."""
        return not _COLD_ONLY & self.options.keys() and "PYTHON_EXEC" not in self.environment

    def argv(self, *extra: str) -> list[str]:
        """Returns torchrun's arguments; ``extra`` options come before the script."""
        words: list[str] = []
        if self.alone and "standalone" not in self.options:
            words.append("--standalone")
        for name, value in self.options.items():
            words.append("--" + name.replace("_", "-"))
            if value is not True:
                words.append(str(value))
        return [*words, *extra, self.script, *self.arguments]

    @property
    def command(self) -> str:
        """The line that does the same in a terminal."""
        prefix = [f"{name}={shlex.quote(value)}" for name, value in self.added.items()]
        return " ".join([*prefix, "torchrun", *map(shlex.quote, self.argv())])


def check(
    script: object,
    arguments: Sequence[object],
    options: Mapping[str, object],
    env: Mapping[str, object] | None,
    warm: bool,
) -> Launch:
    """Checks a call and returns it as a ``Launch``.

    Raises:
        LaunchError: One sentence that names what is wrong and what to do.
    """
    named = _check_options(options)
    _check_ranks(named, warm)
    path = _check_script(script, named)
    environment, added = environment_of(env, named)
    return Launch(path, tuple(_argument(a) for a in arguments), named, environment, added)


def _check_options(options: Mapping[str, object]) -> dict[str, str | bool]:
    named: dict[str, str | bool] = {}
    for given, value in options.items():
        name = _SHORT.get(given, given)
        if name not in OPTIONS:
            near = [option for option in OPTIONS if name and option.startswith(name)]
            near = near or difflib.get_close_matches(name, OPTIONS, n=1)
            hint = f"; did you mean {near[0]}=?" if near else "; `torchrun --help` lists them."
            raise LaunchError(f"torchrun has no option {given}={hint}")
        if name in _OURS:
            raise LaunchError(
                f"{given}= is taken: every rank's output goes to the run folder "
                "(run.stdout(rank), run.directory)."
            )
        if value is None or value is False:
            continue
        if OPTIONS[name] and value is True:
            raise LaunchError(f"{given}= needs a value, not True.")
        if not OPTIONS[name] and value is not True:
            raise LaunchError(f"{given}= is a switch: give True or leave it out.")
        named[name] = True if value is True else _value(given, name, str(value))
    return named


def _value(given: str, name: str, text: str) -> str:
    if name in WHOLE and not (re.fullmatch(r"\d{1,10}", text) and int(text) <= WHOLE[name]):
        most = f" up to {WHOLE[name]}" if name == "master_port" else ""
        raise LaunchError(f"{given}={text} must be a whole number from 0{most}.")
    if name == "nnodes" and not re.fullmatch(r"0*[1-9]\d*(:0*[1-9]\d*)?", text):
        raise LaunchError(f"nnodes={text} must be a number of machines, as 2 or as 1:4.")
    return text


def _check_ranks(options: dict[str, str | bool], warm: bool) -> None:
    asked = str(options.setdefault("nproc_per_node", "1"))
    if asked in {"auto", "gpu", "cpu", "xpu"}:
        return
    if not re.fullmatch(r"[+-]?\d+", asked) or int(asked) < 1:
        raise LaunchError(
            f"nproc_per_node={asked} starts no rank: give the number of ranks on this machine, "
            "1 or more (or 'gpu', 'cpu', 'auto')."
        )
    free = processes.free_memory()
    need = int(asked) * _RANK_BYTES[warm]
    if free is not None and need > free:
        raise LaunchError(
            f"{asked} ranks need at least {need / 2**30:.1f} GiB before they hold any model, and "
            f"{free / 2**30:.1f} GiB of memory are free: ask for fewer, or free some memory."
        )


def _check_script(script: object, options: Mapping[str, object]) -> str:
    if callable(script):
        raise LaunchError(
            f"torchrun starts a script, not the function {getattr(script, '__name__', script)}: "
            "put it in a file or in a %%torchrun cell, or pass as_file(function) to a script "
            "that takes one."
        )
    if not isinstance(script, str | os.PathLike) or not os.fspath(script):
        raise LaunchError(f"The script must be a path, not {script!r}.")
    path = os.fspath(script)
    if not options.get("no_python") and str(path).startswith("-"):
        raise LaunchError(f"{path} reads as an option: write ./{path}, or give it another name.")
    if options.get("module") or options.get("no_python"):
        return str(path)
    if os.path.islink(path) and not os.path.exists(path):
        raise LaunchError(f"{path} is a link that leads nowhere.")
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        near = difflib.get_close_matches(
            os.path.basename(path), os.listdir(folder) if os.path.isdir(folder) else (), n=1
        )
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise LaunchError(f"There is no script {path}{hint}, looked for in {os.getcwd()}.")
    if os.path.isdir(path):
        raise LaunchError(f"{path} is a folder, not a script.")
    if not os.path.isfile(path):  # a pipe or a device: each rank would wait for it
        raise LaunchError(f"{path} is not an ordinary file: save the script in one.")
    _check_syntax(str(path))
    return str(path)


def _check_syntax(path: str) -> None:
    try:
        compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.lineno is None:  # a null byte
            raise LaunchError(f"{path} is not a Python script: {error.msg}.") from None
        line = (error.text or "").strip()
        magic = line.startswith(("%", "!"))
        raise LaunchError(
            f"{path} has a syntax error in line {error.lineno}: {error.msg}"
            + (f", at `{line}`." if line else ".")
            + " Magics of the notebook do not work in a script." * magic
        ) from None
    except ValueError as error:  # a null byte, as Python 3.11.3 and older tell it
        raise LaunchError(f"{path} is not a Python script: {error}.") from None
    except OSError as error:
        raise LaunchError(f"{path} cannot be read: {error.strerror}.") from None


def _argument(value: object) -> str:
    if isinstance(value, str | os.PathLike):
        text = str(os.fspath(value))
        if "\0" in text:
            raise LaunchError(f"A script's argument cannot hold a null character: {text!r}.")
        return text
    if isinstance(value, int | float):
        return str(value)
    raise LaunchError(f"A script's argument must be text or a number, not {value!r}.")


def torchrun_command() -> list[str]:
    """Returns the words that start torchrun with this interpreter."""
    beside = os.path.join(os.path.dirname(sys.executable), "torchrun")
    return (
        [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "torch.distributed.run"]
    )
