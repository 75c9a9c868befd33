"""The figure of lessons 05 and 06: where the segments of a key come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..curves.canvas import Canvas
    from ..curves.display import Picture

__all__ = ["plot_names"]

_HEAD, _STEP, _BELOW, _INDENT, _LEFT = 50.0, 36.0, 9.0, 22.0, 8.0


def plot_names(module: nn.Module, key: str) -> Picture:
    """Draws a key as what it is: a way through attributes, from a module to a tensor.

    Each box is an object inside the one around it, under the attribute on its edge. A box and its
    segment of the key have one colour; what a wrapper such as DistributedDataParallel added is red.

    Args:
        module: The module on which ``state_dict()`` was called, wrapped or not.
        key: One of the names in that state dict.

    Returns:
        The picture, already shown if this is a notebook; ``.save(path)`` writes the PNG.

    Raises:
        TypeError: If ``module`` is not a module, or ``key`` not a string.
        ValueError: If the way ends before a tensor is reached; it says where.

    Example:
        >>> from torch import nn
        >>> plot_names(nn.DataParallel(nn.Linear(2, 2)), "module.weight")
        <figure of the name module.weight>
    """
    boxes = _walk(module, key)
    from ..curves.canvas import Canvas
    from ..curves.display import Picture
    from .shapes import WIDTH

    size = WIDTH, round(_HEAD + len(boxes) * (_STEP + _BELOW) + 4)
    canvas = Canvas(*size, scale=2)
    _draw_key(canvas, size[1] - 20, boxes[1:])
    for depth, box in enumerate(boxes):
        _draw_box(canvas, size[1] - _HEAD, depth, len(boxes), box)
    way = ", which has ".join(
        f"{box.segment}, a {box.title}{f' (added by {box.added})' if box.added else ''}"
        for box in boxes[1:]
    )
    alt = f"The name {key}, attribute by attribute: the {boxes[0].title} has {way}."
    return Picture(canvas.png(small=True), f"<figure of the name {key}>", alt, size)


@dataclass(frozen=True)
class _Box:
    segment: str  # the attribute under which it lies; empty for the outermost
    title: str
    beside: tuple[str, ...]  # the other attributes that hold something of a state dict
    added: str  # the class of the wrapper that added the segment, or nothing
    color: str


def _walk(module: nn.Module, key: str) -> list[_Box]:
    """Returns the objects from the module to the tensor, or says where the way ends."""
    from torch import nn

    from ..checkpoints.unwrap import wrapper_paths
    from ..curves.scene import GREY, RANK_0
    from .shapes import NESTED

    if not isinstance(module, nn.Module):
        raise TypeError(f"plot_names() needs a module, not a {type(module).__name__}.")
    if not isinstance(key, str):
        raise TypeError(f"plot_names() needs a key, such as 'conv1.weight', not {key!r}.")
    wrappers = wrapper_paths(module)
    segments = key.split(".")
    boxes, here, path = [], module, ""
    boxes.append(_Box("", type(module).__name__, _others(module, segments[0]), "", GREY))
    for index, segment in enumerate(segments):
        found = _held(here).get(segment)
        if found is None:
            raise ValueError(_lost(here, path, segment, key))
        added = type(here).__name__ if wrappers.get(path) == segment else ""
        color = RANK_0 if added else NESTED[sum(not box.added for box in boxes) % len(NESTED)]
        path = f"{path}.{segment}" if path else segment
        last = index == len(segments) - 1
        if isinstance(found, nn.Module) is last:
            raise ValueError(_lost(found, path, "" if last else segments[index + 1], key))
        if isinstance(found, nn.Module):
            here, title = found, type(found).__name__
            beside = _others(found, segments[index + 1])
        else:
            shape = "×".join(str(n) for n in found.shape)
            title, beside = f"{type(found).__name__} {shape}".rstrip(), ()
        boxes.append(_Box(segment, title, beside, added, color))
    return boxes


def _held(module: nn.Module) -> dict[str, nn.Module | Tensor]:
    # Not getattr: a compiled module answers for the attributes of the one inside it.
    held = {**module._modules, **module._parameters, **module._buffers}
    return {name: value for name, value in held.items() if value is not None}


def _others(module: nn.Module, segment: str) -> tuple[str, ...]:
    return tuple(name for name in _held(module) if name != segment)


def _lost(here: nn.Module | Tensor, path: str, segment: str, key: str) -> str:
    where = f" at {path!r}" if path else ""
    start = f"plot_names(): there is no tensor {key!r}; the {type(here).__name__}{where}"
    from torch import nn

    if not isinstance(here, nn.Module):
        return f"{start} is a tensor, and holds no {segment!r}."
    names = ", ".join(_held(here)) or "nothing"
    return f"{start} has {names}" + (f", not {segment!r}." if segment else ".")


def _draw_key(canvas: Canvas, y: float, boxes: list[_Box]) -> None:
    from ..curves.scene import GREY, RANK_0
    from .shapes import WIDTH

    size = 17.0
    whole = ".".join(box.segment for box in boxes)
    while size > 9 and canvas.text_width(whole, size=size, bold=True) > WIDTH - 2 * _LEFT:
        size -= 1
    x = _LEFT
    for index, box in enumerate(boxes):
        if index:
            canvas.text(x, y, ".", GREY, size=size, bold=True)
            x += canvas.text_width(".", size=size, bold=True)
        canvas.text(x, y, box.segment, box.color, size=size, bold=True)
        wide = canvas.text_width(box.segment, size=size, bold=True)
        under = [y - 0.75 * size] * 2
        if box.added:
            canvas.line([x, x + wide], under, RANK_0, width=2.5)
        x += wide


def _draw_box(canvas: Canvas, top: float, depth: int, count: int, box: _Box) -> None:
    from ..curves.scene import GREY, INK
    from .shapes import WIDTH

    indent = min(_INDENT, 200 / count)
    left, right = _LEFT + depth * indent, WIDTH - _LEFT - depth * indent / 2
    high = top - depth * _STEP
    low = top - count * _STEP - (count - depth - 1) * _BELOW
    width = 2.4 if box.added else 1.2
    canvas.box((left, low, right, high), "white")
    if box.segment:
        canvas.box((left, low, right, high), box.color, 0.2 if box.added else 0.1)
    xs, ys = [left, right, right, left, left], [low, low, high, high, low]
    canvas.line(xs, ys, box.color, width=width)
    x = left + 10
    if box.segment:
        words, said = f".{box.segment}", f"added by {box.added}" if box.added else ""
        wide = canvas.text_width(words, bold=True)
        more = 8 + canvas.text_width(said, size=10) if said else 0
        tab = (x - 5, high - 8, x + wide + more + 5, high + 8)
        canvas.box(tab, "white")
        canvas.text(x, high, words, box.color, bold=True)
        canvas.text(x + wide + 8, high, said, box.color, size=10)
    canvas.text(x, high - 20, box.title, INK, size=12, bold=True)
    if box.beside:
        title = canvas.text_width(box.title, size=12, bold=True)
        words = canvas.fitting(f"also: {', '.join(box.beside)}", right - x - title - 40, size=10)
        canvas.text(right - 8, high - 20, words, GREY, size=10, across="right")
