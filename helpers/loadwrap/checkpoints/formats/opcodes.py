"""What each pickle opcode does, on inert values alone."""

from __future__ import annotations

import struct
from typing import Any

from .machine import Machine, Malformed, decimal, opcode, unescape


def _constant(code: bytes, value: Any, name: str) -> None:
    def step(machine: Machine) -> None:
        machine.stack.append(value)

    step.__name__ = name
    opcode(code)(step)


def _empty(code: bytes, kind: type, name: str) -> None:
    def step(machine: Machine) -> None:
        machine.new(kind())

    step.__name__ = name
    opcode(code)(step)


def _number(code: bytes, form: str, name: str) -> None:
    unpack, width = struct.Struct(form).unpack, struct.calcsize(form)

    def step(machine: Machine) -> None:
        machine.stack.append(unpack(machine.take(width))[0])

    step.__name__ = name
    opcode(code)(step)


def _sized(code: bytes, form: str, name: str, text: bool) -> None:
    def step(machine: Machine) -> None:
        length = machine.number(form)
        (machine.text if text else machine.bytes)(length)

    step.__name__ = name
    opcode(code)(step)


def _memo(code: bytes, form: str, put: bool, name: str) -> None:
    def get_step(machine: Machine) -> None:
        machine.stack.append(machine.memo[machine.number(form)])

    def put_step(machine: Machine) -> None:
        machine.memo[machine.number(form)] = machine.stack[-1]

    step = put_step if put else get_step
    step.__name__ = name
    opcode(code)(step)


def _tuple(code: bytes, length: int, name: str) -> None:
    def step(machine: Machine) -> None:
        stack = machine.stack
        if len(stack) < length:
            raise Malformed("the stack is empty")
        machine.containers += 1
        stack[-length:] = [tuple(stack[-length:])]

    step.__name__ = name
    opcode(code)(step)


_constant(b"N", None, "none")
_constant(b"\x88", True, "newtrue")
_constant(b"\x89", False, "newfalse")
_constant(b")", (), "empty_tuple")
_empty(b"}", dict, "empty_dict")
_empty(b"]", list, "empty_list")
_empty(b"\x8f", list, "empty_set")  # its members are looked at, never hashed
_number(b"J", "<i", "binint")
_number(b"K", "<B", "binint1")
_number(b"M", "<H", "binint2")
_number(b"G", ">d", "binfloat")
_sized(b"X", "<I", "binunicode", True)
_sized(b"\x8c", "<B", "short_binunicode", True)
_sized(b"\x8d", "<Q", "binunicode8", True)
_sized(b"B", "<I", "binbytes", False)
_sized(b"C", "<B", "short_binbytes", False)
_sized(b"\x8e", "<Q", "binbytes8", False)
_sized(b"\x96", "<Q", "bytearray8", False)
_memo(b"h", "<B", False, "binget")
_memo(b"j", "<I", False, "long_binget")
_memo(b"q", "<B", True, "binput")
_memo(b"r", "<I", True, "long_binput")
_tuple(b"\x85", 1, "tuple1")
_tuple(b"\x86", 2, "tuple2")
_tuple(b"\x87", 3, "tuple3")


def _python2(machine: Machine, length: int) -> None:
    """Python 2's str, which torch reads as text where it can."""
    machine.bytes(length)
    if isinstance(machine.stack[-1], bytes):
        machine.stack[-1] = machine.stack[-1].decode("latin-1")


@opcode(b"U")
def _short_binstring(machine: Machine) -> None:
    _python2(machine, machine.number("<B"))


@opcode(b"T")
def _binstring(machine: Machine) -> None:
    _python2(machine, machine.number("<i"))


@opcode(b"S")
def _string(machine: Machine) -> None:
    machine.stack.append(unescape(machine.line()))


@opcode(b"V")
def _unicode(machine: Machine) -> None:
    machine.stack.append(str(machine.line(), "raw-unicode-escape"))


@opcode(b"I")
def _int_(machine: Machine) -> None:
    line = machine.line()
    machine.stack.append({b"00": False, b"01": True}.get(line, None))
    if machine.stack[-1] is None:
        machine.stack[-1] = decimal(line)


@opcode(b"L")
def _long(machine: Machine) -> None:
    machine.stack.append(decimal(machine.line().rstrip(b"L")))


@opcode(b"F")
def _float_(machine: Machine) -> None:
    machine.stack.append(float(machine.line()))


def _binary(machine: Machine, length: int) -> None:
    machine.bytes(length)
    if isinstance(machine.stack[-1], bytes):
        machine.stack[-1] = int.from_bytes(machine.stack[-1], "little", signed=True)


@opcode(b"\x8a")
def _long1(machine: Machine) -> None:
    _binary(machine, machine.number("<B"))


@opcode(b"\x8b")
def _long4(machine: Machine) -> None:
    _binary(machine, machine.number("<i"))


@opcode(b"\x80")
def _proto(machine: Machine) -> None:
    machine.protocol = machine.number("<B")
    if machine.protocol > 5:
        raise Malformed(f"it declares protocol {machine.protocol}")


@opcode(b"\x95")
def _frame(machine: Machine) -> None:
    machine.take(8)


@opcode(b"(")
def _mark(machine: Machine) -> None:
    machine.containers += 1
    machine.marks.append(machine.stack)
    machine.stack = []
