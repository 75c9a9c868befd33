"""One job shows many faults: it is run once, and each of its lines is a test."""

import json
from pathlib import Path

import pytest

from checkpoints.faults.dresses import SCRIPTS
from loadwrap import torchrun


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Runs a script of real ranks and returns what each rank said of each dress.

    ``job("silent.py")`` is a list with a dict for each rank: {dress: {family, found, words}}.
    """

    def running(script, *arguments, ranks=2, folder=None):
        place = tmp_path_factory.mktemp("job")
        files = folder or place
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PYTHONUNBUFFERED", raising=False)
            patch.setenv("OMP_NUM_THREADS", "1")
            run = torchrun(
                str(script if Path(script).is_absolute() else SCRIPTS / script),
                *(arguments or (str(files),)),
                nproc_per_node=ranks,
                live=False,
                runs=place / "runs",
            ).wait()
        said = []
        for rank in range(ranks):
            lines = [line for line in run.stdout(rank).splitlines() if line.startswith("{")]
            found = [json.loads(line) for line in lines]
            said.append({one["dress"]: one for one in found})
        return said

    return running
