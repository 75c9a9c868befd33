"""What a checkpoint's pickle turns into here: inert values that can be looked at, never called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .words import one_line


class CheckpointError(ValueError):
    """A file or folder that cannot be read as a checkpoint, told in one sentence.

    Attributes:
        reason: What it is instead: "missing", "empty", "cut", "damaged", "not a checkpoint",
            "unfinished", "too much" or "several".

    Example:
        >>> from loadwrap.checkpoints.formats import CheckpointError, open_checkpoint
        >>> try:
        ...     open_checkpoint("no_such_file.pt")
        ... except CheckpointError as error:
        ...     print(error.reason, "|", error)
        missing | There is no file or folder no_such_file.pt.
    """

    def __init__(self, sentence: str, reason: str = "not a checkpoint") -> None:
        """Keeps the reason beside the sentence."""
        super().__init__(sentence)
        self.reason = reason


@dataclass(slots=True, eq=False)
class TensorInfo:
    """A tensor as the file describes it; none of its bytes have been read.

    Attributes:
        shape: Its sizes, in elements.
        dtype: "float32", as torch names it without ``torch.``.
        device: Where it was when it was saved, such as "cuda:0"; "" if the file does not tell.
        storage: The record that holds its bytes; tensors with one storage share memory.
        nbytes: Size of its elements, in bytes.
        offset: Its first element within the storage, in elements.
        stride: Steps between elements along each dimension, in elements.
        kind: "tensor", "parameter", or another sort such as "sparse".
    """

    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    storage: str = ""
    nbytes: int = 0
    offset: int = 0
    stride: tuple[int, ...] = ()
    kind: str = "tensor"

    def numel(self) -> int:
        """Number of elements."""
        return count(self.shape)

    def __repr__(self) -> str:
        return f"<{self.dtype} {list(self.shape)} on {self.device}>"


@dataclass(slots=True, eq=False)
class StorageInfo:
    """A storage as a persistent id names it: one record of the file."""

    dtype: str
    key: str
    device: str
    nbytes: int


class StateDict(dict[Any, Any]):
    """An OrderedDict of the file, with the attributes set on it (``_metadata``)."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.attributes: dict[str, Any] = {}


@dataclass(slots=True, eq=False)
class Global:
    """A class or function that the pickle names. It is never looked up."""

    name: str
    allowed: bool

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class Refused:
    """An object of a class that ``torch.load(weights_only=True)`` refuses, taken apart.

    Attributes:
        name: Its class or the function that would have built it, such as "argparse.Namespace".
        args: What that function would have been called with.
        state: What its ``__setstate__`` would have been given.
        items: What would have been appended to it.
        entries: What would have been set in it by key.
    """

    name: str
    args: Any = ()
    state: Any = None
    items: list[Any] = field(default_factory=list)
    entries: dict[Any, Any] = field(default_factory=dict)

    @property
    def attributes(self) -> dict[Any, Any]:
        """Its attributes by name, where the state is of the usual form."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:
            slots = state[1] if isinstance(state[1], dict) else {}
            return {**(state[0] if isinstance(state[0], dict) else {}), **slots}
        return state if isinstance(state, dict) else {}

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(slots=True, eq=False)
class Blob:
    """Bytes or text too long to keep: how long, and where in the pickle."""

    length: int
    at: int = -1
    text: bool = False

    def __repr__(self) -> str:
        return f"<{self.length} {'characters' if self.text else 'bytes'}>"


class Attribute(str):
    """A step of a path that is an attribute, not a key: ``.args`` rather than ``["args"]``."""

    __slots__ = ()


@dataclass(slots=True)
class Refusal:
    """One name that ``weights_only`` refuses, and where it stands ("" if nowhere in the tree)."""

    name: str
    where: str
    times: int = 1


def count(shape: tuple[int, ...]) -> int:
    """Number of elements of a shape; 1 for a scalar."""
    number = 1
    for size in shape:
        number *= size
    return number


DEEPEST = 500  # no checkpoint is nested deeper
STATE = Attribute("")  # the step from an object to its attributes


def children(value: Any) -> Iterator[tuple[Any, Any]]:
    """The steps below a value: (key, index or Attribute; child)."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif isinstance(value, Refused):
        if value.state is not None:
            yield STATE, value.state
        yield from value.entries.items()
        yield from enumerate(value.items)
        if value.args:
            yield Attribute("args"), value.args


def walk(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value below ``tree``, containers too, in the file's order, with its ``trail``.

    Each container is entered once, where it is met first, so a pickle that refers to one list a
    million times, or to itself, costs no more than its size. A trail is a chain (trail above,
    step, depth), or None at the top, so that a step costs the same at any depth; ``steps`` unrolls
    it. What lies deeper than any checkpoint is nested is not entered.
    """
    seen: set[int] = set()
    waiting: list[tuple[Any, Any]] = [(None, tree)]
    while waiting:
        trail, value = waiting.pop()
        yield trail, value
        if isinstance(value, (dict, list, tuple, Refused)):
            depth = trail[2] + 1 if trail is not None else 1
            if id(value) in seen or depth > DEEPEST:
                continue
            seen.add(id(value))
            below = [((trail, step, depth), child) for step, child in children(value)]
            below.reverse()
            waiting += below


def steps(trail: Any) -> tuple[Any, ...]:
    """A trail of ``walk`` as a path, the top first."""
    path = []
    while trail is not None:
        trail, step, _ = trail
        path.append(step)
    path.reverse()
    return tuple(path)


def spell(path: tuple[Any, ...], root: str = "ckpt") -> str:
    """A path as Python writes it: ``ckpt["model"]["head.weight"]``."""
    text = root
    attribute = False
    for step in path[:40]:
        if step is STATE:
            attribute = True
            continue
        if isinstance(step, Attribute) or (attribute and isinstance(step, str)):
            text += f".{one_line(step[:80])}"
        elif attribute and isinstance(step, int):
            continue  # a state of two parts: attributes and slots
        elif isinstance(step, str):
            name = step if len(step) < 80 else step[:77] + "..."
            if not name.isprintable() or '"' in name:
                name = one_line(name.replace("\\", r"\\").replace('"', r"\""))
            text += f'["{name}"]'
        elif step is None or isinstance(step, (bool, float, int)):
            text += f"[{step}]"
        else:
            text += f"[<{type(step).__name__}>]"
        attribute = False
    return text + (" ..." if len(path) > 40 else "")
