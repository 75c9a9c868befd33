"""A writer that is killed at any moment leaves the newest complete checkpoint to be loaded.

The writers are forked from one process that has imported torch, as a warm rank is.
"""

import os
import random
import subprocess
import sys
import textwrap
import time
import warnings

import pytest
import torch
from torch import nn

from loadwrap.checkpoints import load_checkpoint

# Reads lines "FOLDER KIND SEED MICROSECONDS", forks a writer, kills it after that time, and says
# how far it got: the last step that was saved for certain.
NURSERY = """
import os, signal, sys, time
import torch
from torch import nn
from loadwrap.checkpoints import save_checkpoint
import loadwrap.checkpoints.audit.record

def write(folder, kind, out):
    net = nn.Linear(200, 200, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(1, 10_000):
        nn.init.constant_(net.weight, step)
        name = "last.pt" if kind == "one" else f"step-{step}.pt"
        save_checkpoint(f"{folder}/{name}", step=step, model=net, optimizer=optimizer,
                        keep=2 if kind == "series" else None)
        os.write(out, b"%d\\n" % step)

# The first optimizer imports much: before the forks, not in each.
warm = nn.Linear(1, 1)
optimizer = torch.optim.SGD(warm.parameters(), lr=0.1)
save_checkpoint(os.path.join(sys.argv[1], "warm.pt"), step=0, model=warm, optimizer=optimizer)
print("ready", flush=True)
for line in sys.stdin:
    folder, kind, micros = line.split()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            write(folder, kind, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    first = os.read(ours, 100)  # the clock starts when the first one is there
    time.sleep(int(micros) / 1e6)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = first
    while more := os.read(ours, 65536):
        said += more
    os.close(ours)
    print(said.split()[-1].decode(), flush=True)
"""

KILLS = int(os.environ.get("LOADWRAP_TEST_KILLS", "30"))


@pytest.fixture
def nursery(tmp_path):
    script = tmp_path / "nursery.py"
    script.write_text(textwrap.dedent(NURSERY))
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.stdout.readline() == "ready\n"

    def kill_after(folder, kind: str, micros: int) -> int:
        """Returns the last step that the writer knew to be saved when it was killed."""
        folder.mkdir()
        child.stdin.write(f"{folder} {kind} {micros}\n")
        child.stdin.flush()
        return int(child.stdout.readline())

    yield kill_after
    child.stdin.close()
    assert child.wait(20) == 0


@pytest.mark.parametrize("kind", ["one", "series"])
def test_a_writer_killed_at_a_random_moment(nursery, tmp_path, kind):
    dice = random.Random(kind)
    leftovers = torn = 0
    for turn in range(KILLS):
        folder = tmp_path / f"{kind}{turn}"
        sure = nursery(folder, kind, dice.randrange(0, 40_000))
        names = sorted(path.name for path in folder.iterdir())
        leftovers += any(name.endswith(".partial") for name in names)
        torn += any(name.endswith(".next") for name in names)
        net = nn.Linear(200, 200, bias=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load_checkpoint(folder, model=net)
        # The one after the last certain one may have been complete when the kill came.
        assert loaded.step in (sure, sure + 1), names
        assert net.weight.unique().tolist() == [loaded.step]
        if kind == "series":
            newest = f"step-{sure + 1}.pt"
            assert (loaded.step == sure + 1) == (newest in names)
            assert sum(name.endswith(".pt") for name in names) <= 3
        # whoever goes on can save, and clears up
        from loadwrap.checkpoints import save_checkpoint

        path = folder / ("last.pt" if kind == "one" else f"step-{sure + 2}.pt")
        save_checkpoint(path, step=sure + 2, model=net)
        assert load_checkpoint(folder, model=net).step == sure + 2
        assert not [name for name in os.listdir(folder) if name.endswith(".partial")]
    assert leftovers, "no kill came in the middle of a write: the test has shown nothing"


def test_two_processes_that_know_nothing_of_each_other_leave_one_whole_file(tmp_path):
    """No process group joins them: each renames a whole file, and its manifest with it."""
    script = tmp_path / "writer.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch
            from torch import nn
            from loadwrap.checkpoints import save_checkpoint
            number = int(sys.argv[1])
            net = nn.Linear(100 + 50 * number, 100, bias=False)
            nn.init.constant_(net.weight, number)
            for step in range(60):
                save_checkpoint("one.pt", step=step, model=net, extra={"writer": number})
            """
        )
    )
    children = [
        subprocess.Popen([sys.executable, str(script), str(number)], cwd=tmp_path)
        for number in range(2)
    ]
    seen = set()
    while any(child.poll() is None for child in children):
        try:
            tree = torch.load(tmp_path / "one.pt", weights_only=True)
        except FileNotFoundError:
            time.sleep(0.1)
            continue
        writer = tree["extra"]["writer"]
        assert tree["model"]["weight"].shape == (100, 100 + 50 * writer)
        assert tree["model"]["weight"].unique().tolist() == [writer]
        seen.add(writer)
        time.sleep(0.01)
    assert [child.returncode for child in children] == [0, 0] and seen
    writer = torch.load(tmp_path / "one.pt", weights_only=True)["extra"]["writer"]
    net = nn.Linear(100 + 50 * writer, 100, bias=False)
    assert load_checkpoint(tmp_path / "one.pt", model=net).step == 59
