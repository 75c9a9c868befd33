"""Exercise checks of lesson 03: who holds what, what escapes DDP, what the constructor sends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..jobs.tracebacks import shortened
from .sending import networks
from .telling import Told
from .verdicts import NotYet, judge, listed, result_of, waited

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..run import Run

__all__ = ["check_groups", "check_sent", "check_tune"]

Holders = Mapping[int, Hashable]

_NEAR = 0.5  # how high a loaded rank's first loss may be


def check_groups(groups: Callable[[Holders], Any], prints: Told) -> None:
    """Exercise 1: the ranks that hold the same are together, and no others.

    Args:
        groups: The learner's function of every rank's fingerprints; it returns groups of ranks.
        prints: What the ranks of the lesson told.
    """
    judge(_groups, groups, prints)


def check_tune(run: Run, checkpoint: str | PathLike[str], tuned: str | PathLike[str]) -> None:
    """Exercise 2: what is to learn learns, the rest stays frozen, and the ranks stay one model.

    Args:
        run: The learner's run, which logged ``loss`` and ``distance``.
        checkpoint: The file that it resumed from.
        tuned: The file that it saved.
    """
    judge(_tuned, run, checkpoint, tuned)


def check_sent(sent_bytes: Callable[[nn.Module], int]) -> None:
    """Exercise 3: the learner's count is what the profiler of a real job counts.

    Args:
        sent_bytes: The learner's function of a model.
    """
    judge(_sent, sent_bytes)


def _groups(groups: Callable[[Holders], Any], prints: Told) -> str:
    parameters = prints["parameters"]
    cases: list[tuple[str, Holders]] = [
        ("for the parameters before wrapping", parameters["before"]),
        ("for the parameters after wrapping", parameters["after"]),
        ("for fingerprints 7, 9, 7, 9 on ranks 0 to 3", {0: 7, 1: 9, 2: 7, 3: 9}),
        ("for fingerprints 5, 8, 5 on ranks 1, 2, 3", {1: 5, 2: 8, 3: 5}),
    ]
    for words, holders in cases:
        answer = result_of(groups, dict(holders))
        try:
            found = [sorted(group) for group in answer]
            of_ranks = all(rank in holders for group in found for rank in group)
        except TypeError:
            of_ranks = False
        if not of_ranks:
            raise NotYet(f"{words} it returns {_in_short(answer)}, not groups of ranks.")
        right: dict[Hashable, list[int]] = {}
        for rank in sorted(holders):
            right.setdefault(holders[rank], []).append(rank)
        if sorted(found) != sorted(right.values()):
            count = len(right)
            raise NotYet(
                f"{words} it returns {found}, but there {'are' if count > 1 else 'is'} {count} "
                f"different model{'s' if count > 1 else ''}."
            )
    return "four models before wrapping, one after it, and no rank is in two groups."


def _in_short(answer: object) -> str:
    """Returns an answer as a verdict shows it: fingerprints are long, and there may be many."""
    text = " ".join(repr(answer).split())
    return shortened(re.sub(r"\d{7,}", lambda number: f"{number[0][:4]}…", text), 100)


def _tuned(run: Run, checkpoint: str | PathLike[str], tuned: str | PathLike[str]) -> str:
    waited(run)
    if len(run.ranks) < 2:
        raise NotYet("one rank alone cannot drift: start at least 2.")
    if "distance" not in run.metrics or run.curve("distance")[1][0][-1] <= run.curve()[1][0][0]:
        raise NotYet("no distance was logged after a step: keep --distance-every 1.")
    if not _is_newer(tuned, run):
        raise NotYet(f"this run saved nothing to {tuned}.")
    first = {rank: values[0] for rank, (_, values) in run.curve("loss").items()}
    strangers = [rank for rank, loss in sorted(first.items()) if not loss < _NEAR]
    if strangers:
        raise NotYet(f"{listed(strangers)} did not resume from the checkpoint.")
    before, after = _weights(checkpoint), _weights(tuned)
    for name in sorted(before.keys() - after.keys()):
        raise NotYet(f"{name} is missing in what it saved.")
    learned = {name.split(".")[0] for name in before if not before[name].equal(after[name])}
    for part in ("conv2", "head"):
        if part not in learned:
            raise NotYet(f"{part} is as it was in the checkpoint: it was to learn.")
    thawed = sorted(learned - {"conv2", "head"})
    if thawed:
        *most, last = thawed
        names = f"{', '.join(most)} and {last}" if most else last
        raise NotYet(
            f"{names} learned as well: {'they were' if most else 'it was'} to stay frozen."
        )
    apart = [rank for rank, (_, far) in sorted(run.curve("distance").items()) if far.any()]
    if apart:
        away = "drifts" if len(apart) == 1 else "drift"
        raise NotYet(f"conv2 and head learn, but {listed(apart)} {away} away from rank 0.")
    return f"conv2 and head learn, the rest is frozen, and the {len(first)} ranks stay one model."


def _is_newer(path: str | PathLike[str], run: Run) -> bool:
    """Whether a file was written since the run was started: an earlier run may have left one."""
    from ..folder import RECORD

    started = json.loads((run.directory / RECORD).read_text(encoding="utf-8"))["started"]
    return Path(path).is_file() and Path(path).stat().st_mtime >= started


def _weights(path: str | PathLike[str]) -> dict[str, Tensor]:
    """Returns the parameters in a checkpoint of train.py, without the buffers."""
    import torch

    model: dict[str, Tensor] = torch.load(path, map_location="cpu")["model"]
    return {name: model[name] for name in model if name.endswith((".weight", ".bias"))}


def _sent(sent_bytes: Callable[[nn.Module], int]) -> str:
    from ..run import torchrun

    run = waited(torchrun("loadwrap.lessons.sending", module=True, nproc_per_node=2, live=False))
    measured = json.loads(run.stdout(0).splitlines()[-1])
    for name, model in networks().items():
        counted = result_of(sent_bytes, model)
        if not hasattr(counted, "__index__") or int(counted) != measured[name]:
            raise NotYet(
                f"for {name} it gives {counted}; the profiler saw {measured[name]} bytes sent."
            )
    return f"it counts what the profiler counts, on all {len(measured)} networks."
