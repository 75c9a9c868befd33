"""Runs inside the kernel: notes how many records of each rank every picture holds."""

from typing import Any

from loadwrap.curves.display import Handle
from loadwrap.curves.figure import LiveFigure

METRIC = "loss"

pictures: list[dict[int, int]] = []
_held: dict[int, int] = {}


def install() -> None:
    """Notes, from now on, each picture of a live figure as it is handed over for display."""
    for name in ("draw", "finish"):
        setattr(LiveFigure, name, _noting_records(getattr(LiveFigure, name)))
    show = Handle.show

    def noting_pictures(self: Handle, png: bytes, alt: str) -> None:
        pictures.append(dict(_held))
        show(self, png, alt)

    Handle.show = noting_pictures  # type: ignore[method-assign]


def _noting_records(method: Any) -> Any:
    def noting(self: LiveFigure, curves: Any, status_text: str) -> None:
        # Nothing is read from the files while the figure draws: it draws what there is now.
        _held.clear()
        _held.update({rank: one.size for rank, one in curves.series(METRIC).items()})
        method(self, curves, status_text)

    return noting
