"""--model with builders that start processes of their own, or die: an answer, nothing left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from loadwrap.doctor import main

BUILDERS = """
import os, signal, subprocess, sys, time, torch

def note(pid):
    with open("pids", "a") as file:
        print(pid, file=file)

def forks(detach=False):
    if os.fork() == 0:
        if detach:
            os.setsid()
        note(os.getpid())
        time.sleep(600)
        os._exit(0)
    while not os.path.exists("pids") or not open("pids").read():
        time.sleep(0.01)
    return torch.nn.Linear(3, 2)

def detaches():
    return forks(True)

def comes_back():
    if os.fork() == 0:
        note(os.getpid())
        return torch.nn.Linear(7, 7)
    while not os.path.exists("pids") or not open("pids").read():
        time.sleep(0.01)
    time.sleep(0.3)
    return torch.nn.Linear(3, 2)

def starts():
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    note(child.pid)
    return torch.nn.Linear(3, 2)

def lingers():
    import threading
    threading.Thread(target=time.sleep, args=(600,)).start()
    note(os.getpid())
    return torch.nn.Linear(3, 2)

def exits():
    os._exit(2)

def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

def complains():
    os.write(2, b"out of cheese\\n")
    os._exit(7)
"""


def gone(pid: int) -> bool:
    """Whether a process has ended, or is only left to be reaped by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(BUILDERS)
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "last.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("builder", ["forks", "detaches", "comes_back", "starts", "lingers"])
def test_what_a_builder_started_is_neither_waited_for_nor_left(folder: Path, builder: str) -> None:
    assert main(["last.pt", "--model", f"net:{builder}", "--timeout", "500"]) == 0
    pids = [int(line) for line in (folder / "pids").read_text().split()]
    assert pids
    deadline = time.monotonic() + 60
    while not all(map(gone, pids)):  # killed; the kernel ends it when it gets to it
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        ("exits", "the process that builds it ended with exit code 2."),
        ("crashes", "the process that builds it was killed by signal 11."),
        ("complains", "ended with exit code 7 and said 'out of cheese'."),
    ],
)
def test_a_builder_that_dies_is_told_as_that(
    folder: Path, capsys: pytest.CaptureFixture[str], builder: str, words: str
) -> None:
    assert main(["last.pt", "--model", f"net:{builder}"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
