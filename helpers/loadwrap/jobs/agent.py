"""A job's agent: torchrun's own code, with one change, where it starts a rank.

torchrun starts each rank through ``get_subprocess_handler``, as ``python -u script …``. Here
that function hands the same words, environment and output files to the host, which forks the
rank from a process that has torch already (``rank.py``). Everything else is torchrun as it
ships: the rendezvous, the environment variables, how it watches, restarts and ends ranks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from typing import Any

from .. import folder
from . import processes, wire

_NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
_PORT_TRIES = 5


class _ForkedRank:
    """A rank that the host forked, with as much of ``subprocess.Popen`` as torchrun uses."""

    def __init__(self, agent: _Agent, pid: int) -> None:
        self._agent = agent
        self.pid = pid

    @property
    def returncode(self) -> int | None:
        return self._agent.codes.get(self.pid)

    def poll(self) -> int | None:
        self._agent.hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired(f"rank with pid {self.pid}", timeout or 0)
            time.sleep(0.01)
        return code

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            processes.kill([self.pid], signum)


class _Agent:
    def __init__(self, link: wire.Link, run: str, drop: frozenset[str]) -> None:
        self.link = link
        self.run = run
        self.drop = drop  # variables of this process that are none of the ranks' business
        self.codes: dict[int, int] = {}
        self.groups: list[int] = []

    def hear(self) -> list[dict[str, Any]]:
        """Takes in what the host has said."""
        messages, _, open_ = self.link.receive()
        for message in messages:
            if "code" in message:
                self.codes[message["pid"]] = message["code"]
        if not open_:
            self.abandon()
        return messages

    def popen(self, words: tuple[str, ...], env: dict[str, str], out: int, err: int) -> _ForkedRank:
        env = {name: value for name, value in env.items() if name not in self.drop}
        where = {"rank": int(env["RANK"]), "local_rank": int(env["LOCAL_RANK"])}
        self.link.send({"words": words, "env": env, "cwd": os.getcwd(), **where}, (out, err))
        while True:
            for message in self.hear():
                if "error" in message:
                    raise OSError(f"the warm host could not fork a rank: {message['error']}")
                if "code" not in message:
                    self.groups.append(message["pid"])
                    return _ForkedRank(self, message["pid"])
            time.sleep(0.001)

    def abandon(self) -> None:
        """The host is gone: ends every process of the job, this one last."""
        for group in self.groups:
            processes.kill_group(group)
        # What left its group can be told by its environment; a forked rank, by its group alone.
        processes.kill_marked(folder.RUN_ENV, self.run)
        os._exit(1)

    def watch(self, host: int) -> None:
        while os.getppid() == host:
            time.sleep(0.1)
        self.abandon()


def main(message: dict[str, Any], link: wire.Link, host: int) -> None:
    """Runs one job to its end; the exit code is torchrun's."""
    _become(message)
    drop = frozenset() if _NVML_CHECK in os.environ else frozenset({_NVML_CHECK})
    # torchrun asks whether there is CUDA; asked this way, the answer leaves CUDA untouched.
    os.environ.setdefault(_NVML_CHECK, "1")
    agent = _Agent(link, message["run"], drop)
    threading.Thread(target=agent.watch, args=(host,), daemon=True, name="watch").start()
    _fork_instead(agent)
    for attempt in range(_PORT_TRIES):
        try:
            _torchrun(message)
            os._exit(0)  # torchrun has cleaned up; Python's own clean-up would only cost
        except Exception as error:
            taken = "EADDRINUSE" in str(error) or "address already in use" in str(error).lower()
            if not (taken and message["static"] and not agent.groups) or attempt == _PORT_TRIES - 1:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)


def _become(message: dict[str, Any]) -> None:
    """Takes on the job's folder, environment and output."""
    log = os.path.join(message["run"], folder.AGENT_LOG)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    # A stop that comes before torchrun has its own handlers ends the agent, and so the job.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = ["torchrun"]


def _fork_instead(agent: _Agent) -> None:
    import torch.distributed.elastic.multiprocessing.api as api
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    class Handler(SubprocessHandler):
        def _popen(self, args: tuple[str, ...], env: dict[str, str]) -> Any:
            out = self._stdout.fileno() if self._stdout else 1
            err = self._stderr.fileno() if self._stderr else 2
            return agent.popen(args, env, out, err)

        def close(self, death_sig: signal.Signals | None = None) -> None:
            try:
                super().close(death_sig)
            except ProcessLookupError:
                pass  # the host reaped it a moment ago; torchrun's own child would be a zombie

    # Called with the keywords of get_subprocess_handler, which are those of the class.
    vars(api)["get_subprocess_handler"] = Handler


def _torchrun(message: dict[str, Any]) -> None:
    from torch.distributed import run

    argv = list(message["argv"])
    if message["static"]:
        # One node without restarts needs no vote on who takes part, nor c10d's random pause of up
        # to 0.3 s before it. The port is free now; should another take it, main() tries again.
        place = argv.index("--standalone")
        argv[place : place + 1] = ["--master-addr", "localhost", "--master-port", str(_free_port())]
    run.run(run.parse_args(argv))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
