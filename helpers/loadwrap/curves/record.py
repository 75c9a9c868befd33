"""``log``: one line per record, from inside a rank.

The file is the whole interface: one JSON object a line, appended by a single ``write``, so
that whoever follows it sees whole records in order, whatever else the rank is doing.
"""

from __future__ import annotations

import atexit
import operator
import os
import threading
from typing import Any

from ..folder import RUN_ENV, metrics_file
from .sink import Sink, from_environment, tell

_RESERVED = frozenset({"step", "header"})
_LARGEST = 2**63 - 1


def log(step: int, **metrics: Any) -> None:
    """Appends one record of this rank's metrics to the run's folder.

    Without a run folder in the environment (``LOADWRAP_RUN``, set by the launcher) it does
    nothing, so that the same script also runs under a bare ``torchrun``. It never stops a
    training: where the disk is full or the folder has gone, it says so once on stderr, counts
    the records that were lost (see :func:`dropped`) and goes on.

    Args:
        step: The training step, an integer. It may go back after a restart.
        **metrics: Any names; each value one number: a Python or numpy number, or a tensor
            with one element on any device. NaN and infinities are kept. Floats come back
            from ``Run.curve`` exactly as they were.

    Raises:
        TypeError: If the step is no integer or a metric is no number.
        ValueError: If a metric has several elements, is called ``header``, or if a number is
            too large to be kept.

    Example:
        >>> from loadwrap import log
        >>> for step in range(3):
        ...     log(step, loss=1.0 / (step + 1), lr=0.1)
    """
    if _sink is None and not _open():
        return
    # Written by hand: json.dumps costs three times as much, and this runs in every step.
    plain = type(step) is int and -_LARGEST <= step <= _LARGEST
    line = '{"step": ' + (str(step) if plain else _step_text(step))
    for name, value in metrics.items():
        text = repr(value) if type(value) is float else _number_text(name, value)
        # x - x is NaN, which is true, exactly for NaN and the infinities.
        if type(value) is float and value - value:
            text = _NON_FINITE[text]
        line += (_key_text.get(name) or _key(name)) + text
    _sink.write((line + "}\n").encode())  # type: ignore[union-attr]


def dropped() -> int:
    """Returns how many records of this process could not be written."""
    return _sink.dropped if _sink is not None else 0


_sink: Sink | None = None
_opening = threading.Lock()
_key_text: dict[str, str] = {}
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _open() -> bool:
    global _sink
    run = os.environ.get(RUN_ENV)
    if not run:
        return False
    with _opening:
        if _sink is None:
            path = metrics_file(os.path.abspath(run), from_environment("RANK", 0))
            _sink = Sink(str(path))
    return True


def _key(name: str) -> str:
    """Returns ``, "name": `` as JSON, remembered: a script uses few names, many times."""
    import json

    if name in _RESERVED:
        raise ValueError(f"a metric cannot be called {name!r}: give it another name in log().")
    if len(_key_text) > 10_000:
        _key_text.clear()
    text = _key_text[name] = f", {json.dumps(name)}: "
    return text


def _step_text(step: Any) -> str:
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise TypeError(f"log() needs an integer step, not {_what(step)}: write int(step).")
    try:
        index = operator.index(step)
    except Exception as error:
        raise TypeError(f"log() needs an integer step, not {_what(step)}.") from error
    if not -_LARGEST <= index <= _LARGEST:
        raise ValueError("log() keeps steps as 64-bit integers: this step is too large.")
    return str(index)


def _number_text(name: str, value: Any) -> str:
    """Returns a number that is not a plain float as JSON text."""
    number = value
    if not isinstance(number, (int, float)) and hasattr(number, "item"):
        try:
            number = number.item()  # numpy scalars, tensors on any device
        except Exception as error:
            raise ValueError(
                f"metric {name!r} must be one number, not {_what(value)}: "
                f"log its mean, such as {name}.mean()."
            ) from error
    if isinstance(number, (str, bytes, bytearray, complex)) or number is None:
        raise TypeError(f"metric {name!r} must be a number, not {_what(value)}.")
    try:
        as_float = float(number)
    except OverflowError as error:
        raise ValueError(f"metric {name!r} is too large for a float64.") from error
    except Exception as error:
        raise TypeError(f"metric {name!r} must be a number, not {_what(value)}.") from error
    if isinstance(number, int) and -_LARGEST <= number <= _LARGEST:
        return str(int(number))
    text = float.__repr__(as_float)
    return _NON_FINITE.get(text, text)


def _what(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and len(tuple(shape)):
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:37]}..."


def _forget_descriptor() -> None:
    global _opening
    _opening = threading.Lock()
    if _sink is not None:
        _sink.after_fork()


os.register_at_fork(after_in_child=_forget_descriptor)


@atexit.register
def _close() -> None:
    if _sink is None:
        return
    _sink.close()
    if _sink.dropped:
        tell(f"loadwrap: {_sink.dropped} records are missing from {_sink.path}.")
