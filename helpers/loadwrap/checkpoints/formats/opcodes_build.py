"""The pickle opcodes that put values together: containers, memo, classes, calls."""

from __future__ import annotations

from .machine import Machine, decimal, opcode
from .rebuild import build as rebuild
from .values import Refused


@opcode(b"0")
def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.since_mark()


@opcode(b"1")
def _pop_mark(machine: Machine) -> None:
    machine.since_mark()


@opcode(b"2")
def _dup(machine: Machine) -> None:
    machine.stack.append(machine.stack[-1])


@opcode(b"t")
def _tuple_(machine: Machine) -> None:
    machine.new(tuple(machine.since_mark()))


@opcode(b"l")
def _list_(machine: Machine) -> None:
    machine.new(machine.since_mark())


@opcode(b"d")
def _dict_(machine: Machine) -> None:
    items = machine.since_mark()
    machine.new({})
    machine.set(machine.stack[-1], items)


@opcode(b"\x91")
def _frozenset_(machine: Machine) -> None:
    machine.new(machine.since_mark())


@opcode(b"a")
def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.extend(machine.stack[-1], [value])


@opcode(b"e")
def _appends(machine: Machine) -> None:
    items = machine.since_mark()
    machine.extend(machine.stack[-1], items)


@opcode(b"\x90")
def _additems(machine: Machine) -> None:
    _appends(machine)


@opcode(b"s")
def _setitem(machine: Machine) -> None:
    value = machine.stack.pop()
    key = machine.stack.pop()
    machine.set(machine.stack[-1], [key, value])


@opcode(b"u")
def _setitems(machine: Machine) -> None:
    items = machine.since_mark()
    machine.set(machine.stack[-1], items)


@opcode(b"g")
def _get(machine: Machine) -> None:
    machine.stack.append(machine.memo[decimal(machine.line())])


@opcode(b"p")
def _put(machine: Machine) -> None:
    machine.memo[decimal(machine.line())] = machine.stack[-1]


@opcode(b"\x94")
def _memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


@opcode(b"c")
def _global_(machine: Machine) -> None:
    module = machine.line().decode("utf-8")
    machine.name(module, machine.line().decode("utf-8"))


@opcode(b"\x93")
def _stack_global(machine: Machine) -> None:
    name = machine.stack.pop()
    machine.name(machine.stack.pop(), name)


@opcode(b"R")
def _reduce_(machine: Machine) -> None:
    args = machine.stack.pop()
    machine.call(machine.stack.pop(), args)


@opcode(b"\x81")
def _newobj(machine: Machine) -> None:
    _reduce_(machine)


@opcode(b"\x92")
def _newobj_ex(machine: Machine) -> None:
    keywords = machine.stack.pop()
    _reduce_(machine)
    made = machine.stack[-1]
    if isinstance(made, Refused):
        made.state = keywords


@opcode(b"i")
def _inst(machine: Machine) -> None:
    _global_(machine)
    cls = machine.stack.pop()
    machine.call(cls, tuple(machine.since_mark()))


@opcode(b"o")
def _obj(machine: Machine) -> None:
    items = machine.since_mark()
    machine.call(items[0], tuple(items[1:]))


@opcode(b"b")
def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    machine.stack[-1] = rebuild(machine.stack[-1], state)


@opcode(b"P")
def _persid(machine: Machine) -> None:
    machine.stack.append(machine.persistent(machine.line().decode("latin-1")))


@opcode(b"Q")
def _binpersid(machine: Machine) -> None:
    machine.stack.append(machine.persistent(machine.stack.pop()))


def _extension(code: bytes, form: str, name: str) -> None:
    def step(machine: Machine) -> None:
        number = machine.number(form)
        machine.name("copyreg", f"extension_{number}")  # the registry is never asked

    step.__name__ = name
    opcode(code)(step)


_extension(b"\x82", "<B", "ext1")
_extension(b"\x83", "<H", "ext2")
_extension(b"\x84", "<i", "ext4")


@opcode(b"\x97")
def _next_buffer(machine: Machine) -> None:
    machine.new(Refused("out-of-band buffer"))


@opcode(b"\x98")
def _readonly_buffer(machine: Machine) -> None:
    """Changes nothing about a value that nobody writes to."""
