"""Reads a pickle without executing it.

Every opcode is interpreted here, over bytes, into the inert values of ``values.py``. No name is
imported, no function called, no attribute set on anything but our own records; the extension
registry is not consulted. What the pickle asks for is written down instead. Limits on the number
of opcodes and of containers bound the time and the memory that a hostile pickle can take.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import Any

from .allowed import ALLOWED, OPCODES, renamed
from .rebuild import reduce
from .values import Blob, Global, Refused

MAX_OPCODES = 20_000_000
MAX_CONTAINERS = 2_000_000
MAX_MEMO = 4_000_000
MAX_NAME = 512
KEEP_TEXT = 1 << 16  # longer strings and bytes are remembered by their length
KEEP_BYTES = 1 << 12


class Malformed(ValueError):
    """The bytes are not a pickle, or not one that Python could load."""


class Cut(Malformed):
    """The bytes end in the middle of the pickle."""


class TooMuch(Malformed):
    """The pickle holds more objects than there is any sense in looking through."""


class Machine:
    """One pickle being read.

    Attributes:
        at: Position of the next byte; after ``run`` the first byte behind the pickle.
        globals: Every class and function named, by name.
        opcode: The first opcode that ``weights_only`` does not support, or "".
        protocol: The protocol the pickle declares; 0 if it declares none.
    """

    def __init__(
        self,
        data: Any,
        at: int = 0,
        persistent: Callable[[Any], Any] | None = None,
    ) -> None:
        """Takes bytes or an mmap; ``persistent`` turns a persistent id into a value."""
        self.data = data
        self.size = len(data)
        self.at = at
        self.persistent = persistent or (lambda pid: Refused("persistent id", (pid,)))
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.globals: dict[str, Global] = {}
        self.opcode = ""
        self.protocol = 0
        self.containers = 0

    def run(self) -> Any:
        """Interprets up to STOP and returns the value. Raises Malformed, Cut or TooMuch."""
        data, size, table = self.data, self.size, _TABLE
        opcodes = 0
        try:
            while True:
                if self.at >= size:
                    raise Cut("it ends before its STOP")
                code = data[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    return self.stack.pop()
                step = table[code]
                if step is None:
                    raise Malformed(f"byte {code:#04x} at {self.at - 1} is no opcode")
                if code not in OPCODES and not self.opcode:
                    self.opcode = step.__name__.strip("_").upper()
                step(self)
                opcodes += 1
                if (
                    opcodes > MAX_OPCODES
                    or self.containers > MAX_CONTAINERS
                    or len(self.memo) > MAX_MEMO
                ):
                    raise TooMuch("it holds millions of Python objects")
        except Malformed:
            raise
        except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
            raise Malformed(f"it breaks off at byte {self.at} ({type(error).__name__})") from None

    # What the opcodes share

    def take(self, length: int) -> bytes:
        """The next bytes."""
        end = self.at + length
        if length < 0:
            raise Malformed("negative length")
        if end > self.size:
            raise Cut("it ends in the middle of a value")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def line(self) -> bytes:
        """The bytes up to the next newline."""
        end = self.data.find(b"\n", self.at, min(self.size, self.at + KEEP_TEXT))
        if end < 0:
            raise Cut("it ends in the middle of a line")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def number(self, form: str) -> int:
        """The next number, in a form of ``struct``."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, length: int) -> None:
        """Pushes text, or how long it is."""
        if length > KEEP_TEXT:
            self.skip(length, text=True)
        else:
            self.stack.append(str(self.take(length), "utf-8", "surrogatepass"))

    def bytes(self, length: int) -> None:
        """Pushes bytes, or how many there are."""
        if length > KEEP_BYTES:
            self.skip(length)
        else:
            self.stack.append(self.take(length))

    def skip(self, length: int, text: bool = False) -> None:
        """Pushes how long a value is, and steps over it."""
        if self.at + length > self.size:
            raise Cut("it ends in the middle of a value")
        self.stack.append(Blob(length, self.at, text))
        self.at += length

    def since_mark(self) -> list[Any]:
        """Takes everything pushed since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def new(self, value: Any) -> None:
        """Pushes a new container."""
        self.containers += 1
        self.stack.append(value)

    def name(self, module: Any, name: Any) -> None:
        """Pushes the name of a class or function."""
        if not (isinstance(module, str) and isinstance(name, str)):
            raise Malformed("a class is named by something that is no text")
        if len(module) + len(name) > MAX_NAME:
            raise Malformed("the name of a class is hundreds of characters long")
        full = renamed(module, name)
        if full not in self.globals:
            self.containers += 1
            self.globals[full] = Global(full, full in ALLOWED)
        self.stack.append(self.globals[full])

    def call(self, function: Any, args: Any) -> None:
        """Pushes what a call would have made."""
        if not isinstance(args, tuple):
            raise Malformed("a class is called with something that is no tuple")
        made = reduce(function, args)
        # One long list may be copied over and over: what is copied is counted.
        self.containers += 1 + (len(made) if isinstance(made, (list, dict)) else 0)
        self.stack.append(made)

    def set(self, target: Any, items: list[Any]) -> None:
        """Sets keys and values, given in turn."""
        if isinstance(target, Refused):
            target = target.entries
        if not isinstance(target, dict) or len(items) % 2:
            raise Malformed("an entry is set in something that is no dict")
        for i in range(0, len(items), 2):
            target[hashable(items[i])] = items[i + 1]

    def extend(self, target: Any, items: list[Any]) -> None:
        """Appends items."""
        if isinstance(target, Refused):
            target = target.items
        if not isinstance(target, list):
            raise Malformed("something is appended to what is no list")
        target.extend(items)


def hashable(key: Any, depth: int = 0) -> Any:
    """The key itself, or an inert one in place of what is unsafe to hash or to print.

    (A tuple nested a million times deep overflows the C stack in ``hash``.)
    """
    if isinstance(key, (str, float, bool, type(None))):
        return key
    if isinstance(key, tuple):
        safe = depth < 4 and len(key) <= 64
        return key if safe and all(hashable(k, depth + 1) is k for k in key) else Refused("key")
    if isinstance(key, int):
        return Refused("giant number") if abs(key) >> 64 else key
    return Refused("key", (key,)) if isinstance(key, (dict, list)) else key


_TABLE: list[Callable[[Machine], None] | None] = [None] * 256


def opcode(code: bytes) -> Callable[[Callable[[Machine], None]], Callable[[Machine], None]]:
    """Enters a function as the meaning of one opcode."""

    def enter(step: Callable[[Machine], None]) -> Callable[[Machine], None]:
        _TABLE[code[0]] = step
        return step

    return enter


def decimal(digits: bytes) -> int:
    """An integer in decimal, as protocol 0 writes it."""
    if len(digits) > 400:
        raise Malformed("a number has hundreds of digits")
    return int(digits)


def unescape(line: bytes) -> str:
    """A quoted string, as protocol 0 writes it."""
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"\"'":
        raise Malformed("a string is not quoted")
    return codecs.escape_decode(line[1:-1])[0].decode("latin-1")


# These fill the table.
from . import opcodes as _opcodes  # noqa: E402, F401
from . import opcodes_build as _opcodes_build  # noqa: E402, F401
