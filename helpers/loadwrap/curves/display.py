"""One picture in a notebook's output, drawn again in place."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any


def in_notebook() -> bool:
    """Returns whether there is a kernel that can show a picture."""
    return getattr(_shell(), "kernel", None) is not None


class Handle:
    """Shows a PNG and replaces it.

    The text beside the picture never changes and the types of data are always the same: tools
    that compare notebooks see the first picture in a run and the last one in the file.

    Args:
        words: The constant text.
        width: Width in CSS pixels, at which a sharper picture is shown too.
        height: Height in CSS pixels.
    """

    def __init__(self, words: str, width: int, height: int) -> None:
        self._words = words
        self._size = {"width": width, "height": height}
        self._id: str | None = None

    def show(self, png: bytes, alt: str, height: int | None = None) -> None:
        """Sends the picture to the notebook; outside a notebook it does nothing."""
        if not in_notebook():
            return
        from IPython.display import publish_display_data

        size = {**self._size, "height": height or self._size["height"]}
        again: dict[str, Any] = {"update": True} if self._id else {}
        self._id = self._id or uuid.uuid4().hex
        publish_display_data(
            {"image/png": png, "text/plain": self._words},
            {"image/png": {**size, "alt": alt}},
            transient={"display_id": self._id},
            **again,
        )


class Picture:
    """A finished figure. As the last value of a cell it shows nothing more."""

    def __init__(self, png: bytes, words: str, alt: str, size: tuple[int, int]) -> None:
        self._png, self._words, self._alt, self._size = png, words, alt, size
        self._shown_in = self._show()

    def png(self) -> bytes:
        """Returns the figure as PNG."""
        return self._png

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the figure as a PNG file and returns its path."""
        target = Path(path)
        target.write_bytes(self._png)
        return target

    def __repr__(self) -> str:
        return self._words

    def _ipython_display_(self) -> None:
        # plot_runs has shown it already in this cell; in a later cell it is asked for again.
        if _cell() != self._shown_in:
            self._shown_in = self._show()

    def _show(self) -> int | None:
        Handle(self._words, *self._size).show(self._png, self._alt)
        return _cell()


def _cell() -> int | None:
    return getattr(_shell(), "execution_count", None)


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
