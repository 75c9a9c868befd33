"""The pickle reader: it agrees with torch on what is harmless, and executes nothing else."""

from __future__ import annotations

import collections
import os
import pickle
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._weights_only_unpickler as unpickler

from loadwrap.checkpoints.formats import CheckpointError, TensorInfo, open_checkpoint
from loadwrap.checkpoints.formats.allowed import ALLOWED, OPCODES
from loadwrap.checkpoints.formats.machine import Machine, Malformed
from loadwrap.checkpoints.formats.values import Refused, walk


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path, call: Any = os.system) -> None:
        self.path, self.call = path, call

    def __reduce__(self) -> Any:
        argument = f"touch {self.path}" if self.call is os.system else str(self.path)
        return (self.call, (argument,))


def test_what_is_allowed_is_what_torch_allows() -> None:
    assert set(unpickler._get_allowed_globals()) == ALLOWED


def test_opcodes_refused_are_those_that_torch_refuses() -> None:
    for name in ("FRAME", "STACK_GLOBAL", "MEMOIZE", "SHORT_BINUNICODE", "BINBYTES", "INST", "OBJ"):
        assert getattr(pickle, name)[0] not in OPCODES
    source = Path(unpickler.__file__).read_text().partition("class Unpickler:")[2]
    for name in pickle.__all__:
        code = getattr(pickle, name)
        if isinstance(code, bytes) and len(code) == 1 and f" {name}[0]" in source:
            assert code[0] in OPCODES, name


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_out_as_pickle_gives_them(protocol: int) -> None:
    value = {
        "int": [0, 1, -1, 255, 65536, -(2**31), 2**40, -(2**70), True, False],
        "float": [0.1, -1e300, float("inf")],
        "text": ["", "ä€😀", "a\nb\\c", "x" * 300],
        "nested": ({"a": (1, (2, (3,)))}, [], (), {}, None),
        (1, "key"): "tuple key",
        None: "none key",
    }
    assert Machine(pickle.dumps(value, protocol)).run() == value


@pytest.mark.parametrize("protocol", [2, 3, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_are_described(tmp_path: Path, protocol: int, zipped: bool) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    saved = {
        "plain": base,
        "view": base.t()[1:3],
        "half": torch.zeros(3, dtype=torch.float16),
        "brain": torch.zeros(3, dtype=torch.bfloat16),
        "eight": torch.zeros(2, dtype=torch.float8_e4m3fn),
        "unsigned": torch.zeros(2, dtype=torch.uint16),
        "complex": torch.zeros(2, dtype=torch.complex64),
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 4),
        "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(5, 5, device="meta"),
        "size": torch.Size([1, 2]),
        "dtype": torch.float32,
        "device": torch.device("cpu"),
    }
    path = tmp_path / "t.pt"
    torch.save(saved, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    tree = open_checkpoint(path).tree
    for name, value in saved.items():
        if isinstance(value, torch.Tensor):
            assert isinstance(tree[name], TensorInfo), name
            assert tree[name].shape == tuple(value.shape), name
            assert f"torch.{tree[name].dtype}" == str(value.dtype), name
    assert tree["plain"].storage == tree["view"].storage
    assert tree["view"].stride == saved["view"].stride()
    assert tree["view"].offset == saved["view"].storage_offset()
    assert tree["parameter"].kind == "parameter"
    assert tree["size"] == (1, 2)


def test_metadata_and_order_survive(tmp_path: Path) -> None:
    state = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()
    torch.save(state, tmp_path / "s.pt")
    tree = open_checkpoint(tmp_path / "s.pt").tree
    assert list(tree) == list(state)
    assert tree.attributes["_metadata"]["1"] == {"version": 2}


@pytest.mark.parametrize("call", [os.system, os.mkdir, eval, exec], ids=lambda call: call.__name__)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_bomb_does_not_go_off(tmp_path: Path, call: Any, zipped: bool) -> None:
    target = tmp_path / "was_here"
    bomb = Bomb(target, call)
    path = tmp_path / "bomb.pt"
    torch.save({"model": {"a": torch.ones(1)}, "extra": [bomb]}, path,
               _use_new_zipfile_serialization=zipped)  # fmt: skip
    found = open_checkpoint(path)
    assert not target.exists()
    names = [one.name for one in found.refusals]
    assert names == [f"{call.__module__}.{call.__name__}"]
    assert found.refusals[0].where == 'ckpt["extra"][0]'


CODE = b"cos\nsystem\n(Vtouch PATH\ntR"
ATTACKS = {
    "reduce": CODE + b".",
    "reduced and thrown away": CODE + b"0}.",
    "inst": b"(Vtouch PATH\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nVtouch PATH\no.",
    "newobj": b"cos\nsystem\n(Vtouch PATH\nt\x81.",
    "newobj_ex": b"cos\nsystem\n(Vtouch PATH\nt}\x92.",
    "stack_global": b"\x8c\x02os\x8c\x06system\x93(Vtouch PATH\ntR.",
    "build": b"cos\nenviron\n}Vx\nVy\nsb.",
    "build __class__": b"cbuiltins\nobject\n)R}V__class__\ncos\nsystem\nsb.",
    "build __setstate__": b"cos\nsystem\n(Vtouch PATH\ntRcos\nsystem\nb.",
    "persistent id": b"cos\nsystem\n(Vtouch PATH\ntRQ.",
    "append to what is called": b"cos\nsystem\n]Vtouch PATH\na.",
    "getattr chain": b"cbuiltins\ngetattr\n(cos\nsystem\nV__call__\ntR(Vtouch PATH\ntR.",
    "extension": b"\x82\x01(Vtouch PATH\ntR.",
    "memo": b"cos\nsystem\np0\n0g0\n(Vtouch PATH\ntR.",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_opcode_calls_anything(attack: str, tmp_path: Path) -> None:
    target = tmp_path / "was_here"
    data = ATTACKS[attack].replace(b"PATH", str(target).encode())
    before = dict(os.environ)
    try:
        Machine(data).run()
    except Malformed:
        pass
    assert not target.exists()
    assert dict(os.environ) == before


def test_a_global_that_is_dropped_is_still_named(tmp_path: Path) -> None:
    machine = Machine(b"\x80\x02" + CODE + b"0}.")
    assert machine.run() == {}
    assert list(machine.globals) == ["os.system"]


def many(opening: bytes, middle: bytes, number: int, closing: bytes) -> bytes:
    return opening + middle * number + closing


@pytest.mark.parametrize(
    "data",
    [
        many(b"\x80\x02", b"]", 300_000, b"."),  # a deep stack
        many(b"\x80\x02)", b"\x85", 500_000, b"."),  # a tuple nested half a million deep
        many(b"\x80\x02})", b"\x85", 500_000, b"K\x01s."),  # the same as a dict key
        many(b"\x80\x02]q\x00", b"(h\x00h\x00lq\x00", 200, b"."),  # doubles 200 times when expanded
        b"\x80\x02]q\x00h\x00a.",  # holds itself
        b"\x80\x02X\xff\xff\xff\x7f.",  # a string longer than the file
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # a number longer than the file
        b"I" + b"9" * 100_000 + b"\n.",  # a number that takes minutes to convert
        b"\x80\x02}\x8a\xff" + b"\x7f" * 255 + b"K\x01s.",  # a giant key
        b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N.",  # a frame longer than memory
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo index of two thousand million
        many(b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\nq\x00", b"(h\x00NNNt", 1000, b"R."),
        many(b"\x80\x02(" + b"K\x01" * 10_000 + b"lq\x00ccollections\nOrderedDict\nq\x01",
             b"h\x01h\x00\x85R0", 20_000, b"N."),
        many(b"\x80\x02cbuiltins\nset\nq\x01(" + b"K\x01" * 50_000 + b"lq\x00",
             b"h\x01h\x00\x85R", 5_000, b"N."),
        many(b"\x80\x02c_codecs\nencode\nq\x01X\x00\xff\x00\x00" + b"a" * 0xFF00 + b"q\x00",
             b"h\x01h\x00\x85R", 50_000, b"N."),
    ],
    ids=[
        "stack", "tuples", "tuple key", "laughs", "itself", "long string", "long number", "digits",
        "giant key", "frame", "memo", "recursion", "copied list", "copied set", "encoded string",
    ],
)  # fmt: skip
def test_bombs_of_time_and_memory_are_bounded(data: bytes) -> None:
    tracemalloc.start()
    started = time.process_time()
    try:
        tree = Machine(data).run()
        assert sum(1 for _ in walk(tree)) < 5_000_000
    except Malformed:
        pass
    spent, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert spent < 60  # unbounded ones take hours
    assert peak < 500 << 20


def test_shapes_that_no_tensor_has_are_refused() -> None:
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
    )
    for shape in (b"(K\x01J\xff\xff\xff\xffl", b"\x8a\x10" + b"\x7f" * 16 + b"\x85", b"K\x01"):
        from loadwrap.checkpoints.formats.rebuild import storage_from

        data = b"\x80\x02" + rebuild + b"(" + storage + b"K\x00" + shape + b"K\x01\x85\x89NtR."
        assert isinstance(Machine(data, 0, storage_from).run(), Refused)


def test_a_pickled_module_is_taken_apart(tmp_path: Path) -> None:
    from loadwrap.checkpoints.doctoring.weights import module_tensors

    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save({"model": net}, tmp_path / "m.pt")
    found = open_checkpoint(tmp_path / "m.pt").tree["model"]
    assert isinstance(found, Refused)
    shapes = {name: tensor.shape for name, tensor in module_tensors(found).items()}
    assert shapes == {name: tuple(value.shape) for name, value in net.state_dict().items()}


@pytest.mark.parametrize(
    ("value", "name", "where"),
    [
        (collections.defaultdict(list), "collections.defaultdict", 'ckpt["x"]'),
        (Path("/data"), f"pathlib.{type(Path()).__name__}", 'ckpt["x"]'),
        (range(3), "builtins.range", 'ckpt["x"]'),
    ],
)
def test_what_weights_only_refuses_is_named(
    tmp_path: Path, value: Any, name: str, where: str
) -> None:
    path = tmp_path / "r.pt"
    torch.save({"model": {}, "x": value}, path)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    refusal = open_checkpoint(path).refusals[0]
    assert refusal.name.replace("_local.", "") == name
    assert refusal.where == where


def test_what_weights_only_takes_is_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    counter = collections.Counter("aab")
    torch.save({"counter": counter, "set": {1, 2}, "complex": 1j, "bytes": b"abc"}, path)
    assert torch.load(path)
    found = open_checkpoint(path)
    assert found.loadable
    assert not found.refusals


def test_an_unreadable_pickle_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "p.pkl"
    path.write_bytes(pickle.dumps({"model": [1, 2], "__author__": "x"}))
    with pytest.raises(CheckpointError, match="a pickle, but not one that torch.save wrote"):
        open_checkpoint(path)
