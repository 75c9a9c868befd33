"""What every test of checkpoints with real ranks needs: a script, a folder, a job."""

import textwrap
from pathlib import Path

import pytest
import torch

from loadwrap import torchrun

HEAD = """
import json, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    def say(**facts):
        print("SAY " + json.dumps(facts), flush=True)
    work(rank, world, say)

def work(rank, world, say):
"""
TAIL = """
main()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def allowed_as_before():
    """A class that a printed line allowed in this process must not be allowed in the next test."""
    allowed = torch.serialization.get_safe_globals()
    yield
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(allowed)


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    """Runs the body of ``work(rank, world, say)`` on gloo ranks; returns what each rank said.

    ``say(a=1, b=2)`` in the body adds to a dict; the answer is a list of one dict per rank.
    """
    import json

    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    count = iter(range(1000))

    def running(body: str, nproc: int = 2, *arguments: str, **options):
        script = Path(tmp_path, f"script_{next(count)}.py")
        script.write_text(
            HEAD + textwrap.indent(textwrap.dedent(body), "    ") + TAIL, encoding="utf-8"
        )
        run = torchrun(
            script.name,
            *arguments,
            nproc_per_node=nproc,
            live=False,
            runs=tmp_path / "runs",
            **options,
        ).wait()
        said = []
        for rank in range(nproc):
            facts: dict = {}
            for line in run.stdout(rank).splitlines():
                if line.startswith("SAY "):
                    facts.update(json.loads(line[4:]))
            said.append(facts)
        return said

    return running
