"""Lesson 08: no cell holds without its fault, and the checks tell right answers from wrong.

One uninterrupted run serves all; a resume that was run once is not run again.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator

import pytest

from lesson_cells import changed, source, verdict
from lesson_files import ROOT, lesson, solution
from loadwrap import as_file
from loadwrap.lessons.lesson_08 import check_exact, check_half, faults_of
from loadwrap.lessons.mean_only import MeanOnly


class Bench:
    """The lesson's variables, with its cells to run in them."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {"__name__": "__main__", "prediction": None}
        self.run("imports")
        self.names["resumed"] = self._once(self.names["resumed"])
        live = 'torchrun(EVERYTHING, "--cpu", *saving, nproc_per_node=2)'
        self.run("base-run", ("show(", "print("), (live, "start(*saving).wait()"))
        self.run("ladder")
        climb, _, _ = source(lesson(8), "ladder-run").partition("\n\n\nprint(")
        self.execute("ladder-run", climb)
        self.mend()
        self.run("restores")

    @staticmethod
    def _once(resumed):
        known: dict[tuple[object, ...], object] = {}

        def once(restore, *options, **more):
            key = as_file(restore), *options, *more.items()
            if key not in known:
                known[key] = resumed(restore, *options, **more)
            return known[key]

        return once

    def execute(self, name: str, text: str) -> None:
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        exec(compile(text, name, "exec", dont_inherit=True), self.names)

    def run(self, cell: str, *changes: tuple[str, str]) -> None:
        self.execute(cell, changed(source(lesson(8), cell), *changes))

    def mend(self) -> None:
        """Define the mended rung without climbing."""
        self.run("ladder-mended", ("a, b, c, top = climb(", "rungs = ("), ("assert", "#"))

    def answered(self, text: str, name: str, *options: object) -> object:
        """Return the run that a learner's cell makes."""
        self.execute(f"answer-{name}", text)
        return self.names["resumed"](self.names[name], *options)


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("lesson")
    os.symlink(ROOT / "launch", folder / "launch")
    (folder / "notebooks").mkdir()
    (folder / "notebooks" / "runs").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        patch.chdir(folder / "notebooks")
        yield Bench()


def loads(part: str) -> str:
    return f'    job.{part}.load_state_dict(saved["{part}"])\n'


AT_THE_NEW_RATE = """
    for group in job.optimizer.param_groups:
        group["lr"] *= job.lr / group["initial_lr"]
    job.scheduler.base_lrs = [job.lr]
"""
OPEN = "    job.open_loader()\n"
TOP = "def and_scaler(job, saved):\n"
# By claim: a cell, and the change in it that takes the fault away.
WITHOUT = {
    "F06": ("ladder-mended", OPEN, OPEN + loads("optimizer")),
    "F07": ("ladder", loads("optimizer"), loads("optimizer") + loads("scheduler")),
    "F08": ("ladder", loads("scheduler"), loads("scheduler") + loads("scaler")),
    "F09": ("ladder", TOP, TOP + loads("ema")),
    "F10": ("restores", "skip=0", "skip=None"),
    "F13": ("restores", " if k in parameters", ""),
    "A9": ("restores", loads("ema").rstrip(), loads("ema").rstrip() + AT_THE_NEW_RATE),
}


@pytest.mark.parametrize("cell", ["ladder-mended", "rates", "silent", "asked"])
def test_the_cell_holds_with_its_fault(bench: Bench, cell: str) -> None:
    bench.run(cell)


@pytest.mark.parametrize("claim", WITHOUT)
def test_the_cell_fails_without_its_fault(bench: Bench, claim: str) -> None:
    cell = lesson(8).metadata["lesson"]["claims"][claim]
    changed_cell, old, new = WITHOUT[claim]
    try:
        if changed_cell != cell:
            bench.run(changed_cell, (old, new))
        if cell == "rates":
            bench.run("ladder-mended", ("assert", "#"))  # its runs
        with pytest.raises(AssertionError):
            bench.run(cell, *([(old, new)] if changed_cell == cell else []))
    finally:
        for name in ("ladder", "restores"):
            bench.run(name)
        bench.mend()


def test_every_claim_has_its_case() -> None:
    assert set(lesson(8).metadata["lesson"]["claims"]) == set(WITHOUT)


def test_the_first_climb_needs_the_loader_opened_too_early(bench: Bench) -> None:
    with pytest.raises(AssertionError):
        bench.run("ladder-run")  # the mended rung is in force


def test_a_resume_is_exact_or_it_is_told_where_not(bench: Bench, capsys) -> None:
    def say(text: str, name: str) -> str:
        run = bench.answered(text, name, "--audit")
        return verdict(capsys, check_exact, run, bench.names["healthy"])

    stub, right = (source(book, "replay") for book in (lesson(8), solution(8)))
    again = changed(right, ('skip=saved["step"] % len(job.loader)', ""))
    early = changed(again, ("    torch.set_rng_state", "    str"))
    start = changed(again, ("    everything(job, saved)", "    weights_only(job, saved)"))
    assert "the loss at step 35" in say(stub, "resume_by_epoch")
    assert "the loss at step 35" in say(early, "resume_by_epoch")
    assert "starts again at step 0" in say(start, "resume_by_epoch")
    assert "job failed" in say(changed(right, ('"step"', '"steps"')), "resume_by_epoch")
    assert say(right, "resume_by_epoch").startswith("Yes")
    assert say(again, "resume_by_epoch").startswith("Yes")

    stub, right = (source(book, "neat") for book in (lesson(8), solution(8)))
    no_average = changed(right, (loads("ema"), ""))
    late = changed(right, (loads("optimizer"), ""), (OPEN, OPEN + loads("optimizer")))
    told = say(stub, "resume_neatly")
    assert "the loss at step 36" in told and "learning rate" not in told  # this is for the hint
    assert "the moving average ends as another one" in say(no_average, "resume_neatly")
    assert say(right, "resume_neatly").startswith("Yes")
    assert say(late, "resume_neatly").startswith("Yes")


def test_half_the_rate_is_half_of_every_rate(bench: Bench, capsys) -> None:
    def say(text: str) -> str:
        run = bench.answered(text, "resume_slower", "--lr", 0.005, "--audit")
        return verdict(capsys, check_half, run, bench.names["healthy"])

    stub, right = (source(book, "half") for book in (lesson(8), solution(8)))
    fresh = changed(right, ("everything(job, saved)", "without_optimizer(job, saved)"))
    bench.execute("fresh", source(lesson(8), "audits").partition("\n\n\ndef random")[0])
    bases = changed(stub, ('group["lr"] / 2', 'group["lr"]'))
    shorter = changed(stub, ("saved)\n", "saved)\n    job.scheduler.base_lrs = [job.lr]\n"))
    assert "is half for 1 step and then the whole old one, at step 36" in say(stub)
    assert "the rate is the whole old one, at step 35" in say(bases)
    third = changed(stub, ('group["lr"] / 2', 'group["lr"] / 3'))
    assert "the rate is 0.3333 of the old one, at step 35" in say(third)
    assert "Not yet" in say(fresh)
    no_average = changed(right, ("everything(job, saved)", "and_scaler(job, saved)"))
    assert "the audit names F09 EMA" in say(no_average)
    assert say(right).startswith("Yes")
    assert say(shorter).startswith("Yes")


def test_the_faults_of_an_audit_are_read(bench: Bench) -> None:
    healthy = bench.names["healthy"]
    with pytest.raises(ValueError, match="printed no audit"):
        faults_of(healthy)
    run = bench.names["resumed"](bench.names["weights_only"], "--audit", "--stop", 0).wait()
    named = faults_of(run)
    assert named[0] == "F07 next learning rates" and "F06 optimizer state" in named
    assert "F10 position in the data" in named and "F10 RNG per rank" in named


def test_a_rate_that_leaves_no_trace_in_the_loss_is_told(bench: Bench, capsys) -> None:
    healthy = bench.names["healthy"]
    run = bench.names["resumed"](bench.names["everything"], "--audit").wait()

    class Other:
        """The run with other values of one metric."""

        ranks, metrics, wait = run.ranks, run.metrics, lambda self: self

        def __init__(self, metric: str) -> None:
            self.metric = metric

        def curve(self, metric: str = "loss"):
            found = run.curve(metric)
            if metric == self.metric:
                return {rank: (steps, values * 2) for rank, (steps, values) in found.items()}
            return found

        def mean(self, metric: str = "loss"):
            return run.mean(metric)

    told = verdict(capsys, check_exact, Other("lr"), healthy)
    assert "Not yet: it leaves the uninterrupted run: the learning rate at step 35." in told
    assert "the scale at step 35" in verdict(capsys, check_exact, Other("scale"), healthy)
    assert verdict(capsys, check_exact, Other("none"), healthy).startswith("Yes")


def test_the_mean_of_a_run_is_seen_alone(bench: Bench) -> None:
    healthy = bench.names["healthy"]
    seen = MeanOnly(healthy, stop=44)
    steps, values = healthy.mean("loss")
    assert list(seen.mean()[0]) == list(range(44))
    assert list(seen.mean()[1]) == list(values[:44]) and len(steps) == 48
    assert list(seen.curve()) == [0] and list(seen.curve()[0][1]) == list(values[:44])
