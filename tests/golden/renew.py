"""Write the golden losses anew: `python tests/golden/renew.py`, after a wanted change of train.py.

Every float is written in full. The test compares with a tolerance, because another instruction set
rounds otherwise.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from loadwrap import Run, torchrun

FOLDER = Path(__file__).resolve().parent
TRAIN = FOLDER.parents[1] / "launch" / "train.py"

RECIPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "sgd": (4, ("--steps", "30")),
    "adamw_cosine": (
        2,
        ("--steps", "30", "--optimizer", "adamw", "--lr", "0.003", "--schedule", "cosine"),
    ),
}


def run_of(recipe: str, runs: Path, warm: bool = True) -> Run:
    ranks, options = RECIPES[recipe]
    return torchrun(TRAIN, *options, nproc_per_node=ranks, live=False, warm=warm, runs=runs).wait()


def losses(run: Run) -> dict[str, list[float]]:
    return {str(rank): values.tolist() for rank, (_, values) in sorted(run.curve("loss").items())}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        for recipe in RECIPES:
            text = json.dumps(losses(run_of(recipe, Path(runs))), indent=1)
            (FOLDER / f"{recipe}.json").write_text(text + "\n")
            print(f"{recipe}.json")
