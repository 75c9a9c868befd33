"""``torchrun()`` and ``Run``: the one place that joins jobs and curves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import views
from .jobs import client, options, processes, runfolder
from .jobs.errors import LaunchError
from .jobs.job import Job
from .jobs.started import StartedJob
from .reading import Reader

if TYPE_CHECKING:
    import numpy as np

    from .curves.follow import Curves

_LOOK_EVERY = 0.1  # seconds between two looks at the files of a running job
_QUIET_END = 30.0  # seconds without a record after which following somebody else's run ends


def torchrun(
    script: str | os.PathLike[str],
    *arguments: str | os.PathLike[str] | int | float,
    live: bool = True,
    warm: bool = True,
    stall_timeout: float | None = None,
    pattern: str | None = None,
    metric: str = "loss",
    resumed_at: float | None = None,
    predicted: float | None = None,
    env: Mapping[str, object] | None = None,
    runs: str | os.PathLike[str] = "runs",
    **torchrun_options: object,
) -> Run:
    """Starts a real torchrun job and, with ``live``, follows it until it has ended.

    Args:
        script: The training script, as torchrun takes it.
        *arguments: The script's own arguments.
        live: Draw every rank's curve while the job runs (outside a notebook: progress lines)
            and return when it has ended. Otherwise return at once; see ``Run.wait``.
        warm: Fork the ranks from a process that has imported torch already. False runs the
            plain ``torchrun`` command. Both give the same losses to the last bit.
        stall_timeout: Seconds without ``log`` and without output after which the job is stopped.
        pattern: A regular expression with named groups (``step``, ``loss``, …) that reads the
            metrics from each rank's output, for a script that never calls ``log``.
        metric: Which metric to draw.
        resumed_at: Step at which the figure has a dashed line.
        predicted: Value at which the figure has a dotted line.
        env: More environment variables for the ranks.
        runs: The folder in which the run's own folder is made.
        **torchrun_options: torchrun's options with underscores: ``nproc_per_node=4``, ``nnodes=2``,
            ``max_restarts=1``, …; a switch is given as True.

    Returns:
        The run: its curves, its output, its folder.

    Raises:
        LaunchError: The call cannot start a job; it says why, in one sentence.
        JobFailed: A rank failed; it ends with the first failing rank's traceback.
        JobStalled: The job was silent for ``stall_timeout`` seconds.
        JobStopped: The stop button was pressed.

    Example:
        >>> from loadwrap import torchrun
        >>> run = torchrun("train.py", "--steps", 60, nproc_per_node=2)  # doctest: +SKIP
        >>> steps, values = run.curve("loss")[0]  # doctest: +SKIP
    """
    if stall_timeout is not None and not stall_timeout > 0:
        raise LaunchError(f"stall_timeout={stall_timeout} must be a number of seconds above 0.")
    if "RANK" in os.environ:
        raise LaunchError("This is a rank of a job already; start jobs from outside of it.")
    try:
        os.getcwd()
    except FileNotFoundError:
        told = "The working folder has been deleted: os.chdir to one that exists."
        raise LaunchError(told) from None
    launch = options.check(script, arguments, torchrun_options, env, warm and client.possible())
    reader = Reader(pattern)  # a pattern that cannot be used is told before anything starts
    directory = runfolder.make(runs, launch.script)
    run = Run(directory, reader)
    run._shown = views.Shown(metric, resumed_at, predicted)
    try:
        run._started = StartedJob(
            launch,
            directory,
            warm=warm,
            stall_timeout=stall_timeout,
            pattern=pattern,
        )
        run._started.begin()
        return run.follow() if live else run
    except KeyboardInterrupt:
        if run._started:  # stop was pressed before anybody attended the job
            run.stop()
            if run._started.error:
                raise run._started.error from None
        raise


class Run:
    """One job: while it runs, and for ever after.

    Example:
        >>> from loadwrap import Run
        >>> run = Run.open("runs/20260101-120000-train-1a2b")  # doctest: +SKIP
        >>> run.mean("loss")  # doctest: +SKIP
    """

    def __init__(self, directory: Path, reader: Reader) -> None:
        """Use ``torchrun(...)`` or ``Run.open(...)``."""
        self.directory = directory
        self._reader = reader.at(directory)
        self._started: StartedJob | None = None
        self._found: dict[str, Any] = {}  # the record of a run that was started elsewhere
        self._shown = views.Shown()

    @classmethod
    def open(cls, path: str | os.PathLike[str], pattern: str | None = None) -> Run:
        """Opens a run that was started elsewhere, running or ended.

        Args:
            path: A run folder, or with ``pattern`` any text file (``slurm-1.out``).
            pattern: A regular expression with named groups, as for ``torchrun``.

        Raises:
            LaunchError: There is no such run.
        """
        place = Path(path)
        if not place.exists():
            raise LaunchError(f"There is no run {path}, looked for in {os.getcwd()}.")
        if place.is_file() and pattern is None:
            raise LaunchError(
                f"{path} is a file: give pattern=r'step (?P<step>\\d+).*loss (?P<loss>\\S+)' or "
                "the like to read its lines, or name a run folder."
            )
        record = runfolder.read(place) if place.is_dir() else {}
        pattern = pattern if pattern is not None else record.get("pattern")
        run = cls(place.resolve(), Reader(pattern))
        run._found = record
        if place.is_dir() and not record and not (place / "metrics").is_dir() and not pattern:
            raise LaunchError(
                f"{path} is not a run folder: it holds neither run.json nor metrics/."
            )
        return run

    @property
    def _job(self) -> Job | None:
        return self._started.job if self._started else None

    @property
    def _record(self) -> dict[str, Any]:
        return self._started.record if self._started else self._found

    @property
    def command(self) -> str:
        """The torchrun command line that does the same in a terminal."""
        return str(self._record.get("command", ""))

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``failed``, ``stopped``; ``unknown`` if its kernel is gone."""
        if self._started and self._job and self._job.ended:
            self._started.settle()
        if "state" in self._record:
            return str(self._record["state"])
        if self._job:
            return "running"
        if self._reader.ended:
            return "finished"
        if not self._record:
            return "unknown"
        fresh = runfolder.read(self.directory)
        if "state" in fresh:
            self._found = fresh
            return str(fresh["state"])
        return "running" if processes.alive(int(self._record.get("kernel", 0))) else "unknown"

    @property
    def starting(self) -> bool:
        """Whether the job still waits for the process that starts it to be up."""
        return self._job is not None and not self._job.ready

    def _curves(self) -> Curves:
        """Takes in what there is; of a run that has ended, the last line as well."""
        state = self.state
        if state != "running" and (state != "unknown" or self._reader.still()):
            self._reader.finish()
        return self._reader.read()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that logged or printed something."""
        return self._reader.ranks()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that were logged."""
        return tuple(self._curves().metrics)

    def curve(self, name: str = "loss") -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Returns a metric of every rank that logged it, as far as it has come.

        Args:
            name: The metric.

        Returns:
            ``{rank: (steps int64 [n], values float64 [n])}``, exactly the floats that were logged.

        Raises:
            KeyError: Nobody logged it; the message lists the metrics there are.
        """
        return self._curves().curve(name)

    def mean(self, name: str = "loss") -> tuple[np.ndarray, np.ndarray]:
        """Returns a metric's mean over the ranks that logged each step.

        Args:
            name: The metric.

        Returns:
            ``(steps int64 [n], values float64 [n])``.

        Raises:
            KeyError: Nobody logged it; the message lists the metrics there are.
        """
        return self._curves().mean(name)

    def stdout(self, rank: int = 0) -> str:
        """Returns what one rank printed; restarted attempts follow one another."""
        return self._reader.output(rank, "stdout")

    def stderr(self, rank: int = 0) -> str:
        """Returns what one rank wrote to standard error."""
        return self._reader.output(rank, "stderr")

    def wait(self) -> Run:
        """Waits for the end of the job, showing nothing but a stall; returns the run.

        Raises:
            JobFailed, JobStalled, JobStopped: As ``torchrun`` does.
        """
        return self._attend(views.Silent)

    def follow(self) -> Run:
        """Draws the run below the cell until it has ended; a stop button ends the job.

        A run that was started elsewhere is followed until it ends, until it has logged nothing
        for half a minute, or until the stop button ends the following (not the run).

        Raises:
            JobFailed, JobStalled, JobStopped: As ``torchrun`` does.
        """
        return self._attend(lambda: views.view(self._shown, self.command))

    def stop(self) -> Run:
        """Stops the job: SIGINT, which a script can handle, then harder; gone within 2 s."""
        if self._started:
            self._started.stop()
        elif self.state == "running":
            raise LaunchError("This run was started elsewhere; stop it there.")
        return self

    def _attend(self, make_view: Callable[[], views.View]) -> Run:
        view: views.View = views.Silent()
        try:
            view = make_view()  # its first figure takes a while, in which stop may be pressed
            view.begin()
            self._loop(view)
        except KeyboardInterrupt:
            if self._started is None:  # only the following stops
                view.end(self._reader, self)
                return self
            self.stop()
        if self._started:
            self._started.settle()
        self._reader.finish()
        view.end(self._reader, self)
        if not self.directory.exists():
            view.say(f"The run folder {self.directory.name} was deleted while the job ran.")
        if self._started and self._started.error:
            raise self._started.error
        return self

    def _loop(self, view: views.View) -> None:
        last_new = time.monotonic()
        while True:
            ended = self._job.wait(_LOOK_EVERY) if self._job else self._elsewhere()
            if self._reader.poll():
                last_new = time.monotonic()
            view.show(self._reader, self)
            if ended:
                return
            if self._job is None and time.monotonic() - last_new > _QUIET_END:
                view.say(f"No new record for {_QUIET_END:.0f} s; run.follow() follows on.")
                return
            if self._started:
                self._started.look_for_life(view.say)

    def _elsewhere(self) -> bool:
        time.sleep(_LOOK_EVERY)
        return self.state not in ("running", "unknown")

    def __repr__(self) -> str:
        words = self._record.get("argv", [])
        what = next((Path(w).name for w in words if w.endswith(".py")), self.directory.name)
        ranks = "1 rank" if len(self.ranks) == 1 else f"{len(self.ranks)} ranks"
        return f"Run({what}, {ranks}, {self.state})"
