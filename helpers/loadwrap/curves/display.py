"""One picture in a notebook's output, drawn again in place."""

from __future__ import annotations

import sys
import uuid
from typing import Any


def in_notebook() -> bool:
    """Returns whether there is a kernel that can show a picture."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


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

    def show(self, png: bytes, alt: str) -> None:
        """Sends the picture to the notebook; outside a notebook it does nothing."""
        if not in_notebook():
            return
        from IPython.display import publish_display_data

        again: dict[str, Any] = {"update": True} if self._id else {}
        self._id = self._id or uuid.uuid4().hex
        publish_display_data(
            {"image/png": png, "text/plain": self._words},
            {"image/png": {**self._size, "alt": alt}},
            transient={"display_id": self._id},
            **again,
        )
