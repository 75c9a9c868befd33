"""The figure that grows while a job runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from .axes import Span, grown, padded, round_up
from .budget import Budget
from .canvas import Canvas
from .columns import Columns
from .display import Handle
from .pace import Pace
from .paint import draw_frame, draw_strokes
from .scene import GREY, INK, Frame, Stroke, columns_of, extent, strokes_of
from .store import Curves, UnknownMetric

WIDTH, HEIGHT = 720, 320
_STRIP = 64  # the height of what stays where nothing was logged at all
_BOX = (62.0, 44.0, 616.0, 270.0)
_FINE = 2048
_CLOCK_S = 1.0  # between two redraws in which only the seconds have changed


class LiveFigure:
    r"""Curves of one metric, one line a rank, redrawn in place in a notebook.

    Outside a notebook it draws nothing until asked (:meth:`png`, :meth:`save`).

    Args:
        metric: The metric to draw, such as ``"loss"``.
        title: What the figure is of, such as ``"train.py"``; empty: the progress is its title.
        resumed_at: The step of a dashed vertical line.
        predicted: The value of a dotted horizontal line.

    Example:
        >>> from loadwrap.curves.figure import LiveFigure
        >>> from loadwrap.curves.store import Curves
        >>> curves = Curves()
        >>> curves.extend(0, "loss", [0, 1, 2], [2.3, 1.1, 0.4])
        >>> figure = LiveFigure("loss", "train.py")
        >>> figure.finish(curves, "finished after 2 s")
        >>> figure.png()[:4]
        b'\x89PNG'
    """

    def __init__(
        self,
        metric: str,
        title: str,
        resumed_at: float | None = None,
        predicted: float | None = None,
    ) -> None:
        self.metric, self.title = metric, title
        self.resumed_at, self.predicted = resumed_at, predicted
        self._handle = Handle(f"<figure of {metric}>", WIDTH, HEIGHT)
        self._canvas: Canvas | None = None
        self._frame: Frame | None = None
        self._scaffold: Any = None
        self._png = b""
        self._pace = Pace()
        self._budget = Budget()
        self._drawn, self._drawn_at = -1, 0.0

    def due(self) -> bool:
        """Returns whether it is time for another redraw: at most four a second."""
        return self._budget.due()

    def draw(self, curves: Curves, status_text: str) -> None:
        """Redraws the figure with what the curves hold now; without news, once a second.

        Args:
            curves: The records so far.
            status_text: How the job stands, such as ``"running · 12 s"``; step, speed, ranks and
                backend are put before it.
        """
        news = curves.changes != self._drawn
        if not news and self._png and time.monotonic() < self._drawn_at + _CLOCK_S:
            return
        self._drawn, self._drawn_at = curves.changes, time.monotonic()
        before = time.thread_time()
        strokes = self._strokes(curves, fine=False)
        progress = self._progress(curves, status_text, over=False)
        if self._canvas is None:
            self._canvas = Canvas(WIDTH, HEIGHT)
        frame = self._live_frame(strokes)
        if frame is None:
            self._waiting(self._canvas, curves, progress, over=False)
        else:
            if frame != self._frame:
                self._canvas.box((0, 0, WIDTH, HEIGHT), "white")
                draw_frame(self._canvas, frame)
                self._scaffold, self._frame = self._canvas.snapshot(), frame
            else:
                self._canvas.restore(self._scaffold)
            draw_strokes(self._canvas, frame, strokes, fine=False)
            self._write_title(self._canvas, progress)
        png = self._canvas.png()
        if png != self._png:
            self._png = png
            self._handle.show(png, self.describe(curves))
        self._budget.spent(time.thread_time() - before)

    def finish(self, curves: Curves, status_text: str) -> None:
        """Draws the figure that stays: whole range, twice as sharp, small in bytes."""
        strokes = self._strokes(curves, fine=True)
        progress = self._progress(curves, status_text, over=True)
        if not curves.metrics:
            self._finish_empty(curves, progress)
            return
        canvas = Canvas(WIDTH, HEIGHT, scale=2)
        spans = extent(strokes, self.resumed_at, self.predicted)
        if spans is None:
            self._waiting(canvas, curves, progress, over=True)
        else:
            frame = self._frame_of(padded(*spans[0], 0.015), padded(*spans[1]))
            draw_frame(canvas, frame)
            draw_strokes(canvas, frame, strokes)
            self._write_title(canvas, progress)
        self._png = canvas.png(small=True)
        self._handle.show(self._png, self.describe(curves))

    def _finish_empty(self, curves: Curves, progress: str) -> None:
        canvas = Canvas(WIDTH, _STRIP, scale=2)
        canvas.box((0, 0, WIDTH, _STRIP), "white")
        words = f"no record: log(step, {self.metric}=...) in a rank draws a curve here"
        canvas.text(16, _STRIP - 24, canvas.fitting(progress, WIDTH - 32), INK, size=12, bold=True)
        canvas.text(16, _STRIP - 44, canvas.fitting(words, WIDTH - 32), GREY)
        self._png = canvas.png(small=True)
        self._handle.show(self._png, self.describe(curves), _STRIP)

    def png(self) -> bytes:
        """Returns the picture last drawn, as PNG; empty before the first."""
        return self._png

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the picture last drawn as a PNG file and returns its path."""
        target = Path(path)
        target.write_bytes(self._png)
        return target

    def describe(self, curves: Curves) -> str:
        """Returns one line of text that says what the figure shows, without measured values."""
        series = curves.series(self.metric)
        if not series:
            logged = f" (logged: {', '.join(curves.metrics)})" if curves.metrics else ""
            return f"{self.metric}: no record{logged}."
        columns = [one.columns() for one in series.values()]
        first = min(c.first_step for c in columns if c.first_step is not None)
        last = max(c.last_step for c in columns if c.last_step is not None)
        if len(series) == 1:
            text = f"{self.metric} of rank {next(iter(series))}, steps {first} to {last}"
        else:
            text = (
                f"{self.metric} of {len(series)} ranks, steps {first} to {last}: "
                "one thin line per rank, bold black their mean"
            )
        if self.resumed_at is not None:
            text += f"; dashed: resumed at step {self.resumed_at:g}"
        if self.predicted is not None:
            text += f"; dotted: predicted {self.predicted:.3g}"
        return text + "."

    def _strokes(self, curves: Curves, *, fine: bool) -> list[Stroke]:
        series = curves.series(self.metric)
        mean = curves.live_mean(self.metric) if len(series) > 1 else None
        if not fine:
            return strokes_of(columns_of(series), mean.columns() if mean else None)
        detailed = {}
        for rank, one in series.items():
            detailed[rank] = Columns(_FINE)
            detailed[rank].add(one.steps, one.values)
        mean_columns = Columns(_FINE)
        if mean is not None:
            mean_columns.add(mean.steps, mean.values)
        return strokes_of(detailed, mean_columns if mean is not None else None)

    def _frame_of(self, x: Span, y: Span) -> Frame:
        return Frame(_BOX, WIDTH - 4, x, y, self.metric, self.resumed_at, self.predicted)

    def _live_frame(self, strokes: list[Stroke]) -> Frame | None:
        """Returns limits that hold all there is, the same object's as long as they do."""
        spans = extent(strokes, self.resumed_at, self.predicted)
        if spans is None:
            return None
        (first, last), values = spans
        right = first + max(round_up((last - first) * 1.02), abs(first) * 1e-12)
        left = first - 0.015 * (right - first)
        return self._frame_of((left, right), grown(*values, self._frame.y if self._frame else None))

    def _waiting(self, canvas: Canvas, curves: Curves, progress: str, *, over: bool) -> None:
        self._frame = None
        canvas.box((0, 0, WIDTH, HEIGHT), "white")
        words = "waiting for the first record"
        if over or curves.metrics:
            words = str(UnknownMetric(self.metric, curves.metrics))
        canvas.text(WIDTH / 2, HEIGHT / 2, words, GREY, size=13, across="center")
        self._write_title(canvas, progress)

    def _write_title(self, canvas: Canvas, progress: str) -> None:
        room = WIDTH - 32
        if not self.title:
            words = canvas.fitting(progress, room, size=12, bold=True)
            canvas.text(16, HEIGHT - 24, words, INK, size=12, bold=True)
            return
        title = canvas.fitting(self.title, room, size=13, bold=True)
        canvas.text(16, HEIGHT - 15, title, INK, size=13, bold=True)
        canvas.text(16, HEIGHT - 33, canvas.fitting(progress, room), GREY)

    def _progress(self, curves: Curves, status_text: str, *, over: bool) -> str:
        """Returns step, speed, ranks, backend, and what the caller has to say."""
        parts = []
        if curves.last_step is not None:
            self._pace.note(curves.last_step)
            drawn = [one.columns().last_step for one in curves.series(self.metric).values()]
            last = max((step for step in drawn if step is not None), default=curves.last_step)
            parts.append(f"step {last:,}")
            speed = self._pace.overall() if over else self._pace.recent()
            if speed is not None:
                parts.append(f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s")
            size = curves.world_size or len(curves.ranks)
            parts.append("1 rank" if size == 1 else f"{size} ranks")
            parts += sorted(
                {str(h["backend"]) for h in curves.headers.values() if h.get("backend")}
            )
        return " · ".join([*parts, status_text] if status_text else parts)
