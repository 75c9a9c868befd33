"""Whatever the bytes: a checkpoint, or one sentence. Never another error, never a call."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.contents import read_contents
from loadwrap.checkpoints.doctoring.deep import examine
from loadwrap.checkpoints.doctoring.examination import Examination
from loadwrap.checkpoints.doctoring.fix import read_weights
from loadwrap.checkpoints.doctoring.report import write_report
from loadwrap.checkpoints.formats import CheckpointError, open_checkpoint
from loadwrap.checkpoints.formats.machine import Machine, Malformed

FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def look(path: Path) -> None:
    """Opens, reads and reports; a CheckpointError of one sentence is the one error allowed."""
    try:
        found = open_checkpoint(path)
    except CheckpointError as error:
        assert "\n" not in str(error)
        return
    contents = read_contents(found)
    write_report(Examination(found, contents, deep=examine(found)))
    for weights in contents.weights:
        try:
            read_weights(found, weights.tensors, None)
        except CheckpointError as error:
            assert "\n" not in str(error)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("valid")
    torch.manual_seed(0)
    content = {"model": layouts.Net().state_dict(), "args": layouts.Net, "epoch": 3}
    files = [
        layouts.save(folder, content, "zip.pt"),
        layouts.save(folder, content, "old.pt", _use_new_zipfile_serialization=False),
        layouts.peft(folder),
        layouts.clip(folder),
        layouts.imagenet(folder),
    ]
    return [file.read_bytes() for file in files]


@FUZZ
@given(data=st.binary(max_size=400))
@pytest.mark.parametrize(
    "start", [b"", b"PK\x03\x04", b"\x80\x02", b"(", b"\x40" + bytes(7) + b"{"]
)
def test_random_bytes(tmp_path: Path, start: bytes, data: bytes) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(start + data)
    look(path)


# One byte, or a number of the sizes that headers hold, at its extremes.
PATCHES = st.one_of(
    st.binary(min_size=1, max_size=1),
    st.sampled_from(
        [b"\xff" * 4, b"\xff" * 8, bytes(4), bytes(8), b"\xff\xff\xff\x7f", b"PK\x05\x06"]
    ),
)


@FUZZ
@given(
    which=st.integers(0, 4),
    changes=st.lists(st.tuples(st.floats(0, 1), PATCHES), min_size=1, max_size=8),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_damaged_files(
    tmp_path: Path,
    valid: list[bytes],
    which: int,
    changes: list[tuple[float, bytes]],
    cut: float | None,
) -> None:
    data = bytearray(valid[which])
    for place, patch in changes:
        at = int(place * (len(data) - 1))
        data[at : at + len(patch)] = patch
    if cut is not None:
        del data[int(cut * len(data)) :]
    path = tmp_path / "x.pt"
    path.write_bytes(data)
    look(path)


OPCODES = [code for name in pickle.__all__ if isinstance(code := getattr(pickle, name), bytes)]
ARGUMENTS = st.sampled_from(
    [
        b"",
        b"os\nsystem\n",
        b"torch._utils\n_rebuild_tensor_v2\n",
        b"\x00",
        b"\x01\x00\x00\x00x",
        b"5\n",
    ]
)


@FUZZ
@given(pieces=st.lists(st.tuples(st.sampled_from(OPCODES), ARGUMENTS), max_size=60))
def test_random_programs(pieces: list[tuple[bytes, bytes]]) -> None:
    program = b"\x80\x04" + b"".join(code + argument for code, argument in pieces) + b"."
    try:
        Machine(program).run()
    except Malformed:
        pass


@FUZZ
@given(data=st.binary(max_size=300))
def test_random_metadata_of_a_folder(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".metadata").write_bytes(data)
    look(tmp_path)


@FUZZ
@given(text=st.text(max_size=200))
def test_random_index_of_a_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    look(tmp_path)
