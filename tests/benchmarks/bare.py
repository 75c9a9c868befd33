"""A bare ``torchrun``, as in a terminal: what everything is measured against."""

import re
import subprocess
import sys
import time
from pathlib import Path

import notebook

SCRIPTS = Path(__file__).with_name("scripts")
FIRST_LINE = SCRIPTS / "first_line.py"
TRAIN = Path(__file__).resolve().parents[2] / "launch" / "train.py"


def command(ranks: int, script: Path, *arguments: object) -> list[str]:
    torchrun = Path(sys.executable).with_name("torchrun")
    program = (
        [str(torchrun)] if torchrun.exists() else [sys.executable, "-m", "torch.distributed.run"]
    )
    words = ["--standalone", "--nproc-per-node", str(ranks), str(script)]
    return program + words + [str(argument) for argument in arguments]


def first_line(ranks: int) -> float:
    """Returns the seconds from the start of ``torchrun`` to the first line of the last rank."""
    start = time.time_ns()
    done = subprocess.run(
        command(ranks, FIRST_LINE),
        env=notebook.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    stamps = [int(text) for text in re.findall(r"\d{19}", done.stdout)]
    if len(stamps) != ranks:
        raise RuntimeError(f"{ranks} ranks printed {len(stamps)} lines: {done.stdout}")
    return (max(stamps) - start) / 1e9
