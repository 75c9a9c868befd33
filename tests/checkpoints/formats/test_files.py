"""Files that are whole, torn, empty, or something else: each is named as what it is."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from loadwrap.checkpoints.formats import CheckpointError, open_checkpoint

CONTENT = {
    "model": {f"layer{index}.weight": torch.randn(50, 40) for index in range(6)},
    "epoch": 3,
}


def refused(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    return caught.value


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("share", [0, 0.001, 0.02, 0.5, 0.9, 0.99, 0.9999])
def test_a_cut_file_is_called_cut(tmp_path: Path, share: float, zipped: bool) -> None:
    whole = tmp_path / "whole.pt"
    torch.save(CONTENT, whole, _use_new_zipfile_serialization=zipped)
    data = whole.read_bytes()
    path = tmp_path / "cut.pt"
    path.write_bytes(data[: int(len(data) * share)])
    error = refused(path)
    assert error.reason == ("empty" if share == 0 else "cut")
    if share in (0.5, 0.9, 0.99):
        told = int(str(error).partition(" %")[0].rpartition("(")[2])
        assert abs(told - 100 * share) <= 3


def test_every_length_of_a_small_file_is_told_without_a_traceback(tmp_path: Path) -> None:
    for zipped in (True, False):
        whole = tmp_path / "whole.pt"
        torch.save({"a": torch.ones(3)}, whole, _use_new_zipfile_serialization=zipped)
        data = whole.read_bytes()
        path = tmp_path / "cut.pt"
        for length in range(0, len(data) - 1, 7):
            path.write_bytes(data[:length])
            refused(path)


def test_the_manifest_tells_how_long_the_file_should_be(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(CONTENT, path)
    data = path.read_bytes()
    (tmp_path / "a.pt.manifest.json").write_text(json.dumps({"size": len(data)}))
    open_checkpoint(path)
    path.write_bytes(data[: len(data) // 2])
    assert "in its manifest (" in str(refused(path))


OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "html": (lambda: b"<!DOCTYPE html>\n<html><body>404</body></html>", "web page"),
    "lfs": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 13240\n",
        "Git LFS pointer",
    ),
    "text": (lambda: "Grüße: epoch 3, loss 0.5\n".encode(), "text that starts"),
    "json": (lambda: b'{"model": [1, 2, 3]}', "JSON text"),
    "png": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(40), "PNG"),
    "zeros": (lambda: bytes(100_000), "nothing but zero bytes"),
    "noise": (lambda: b"\xfe" + bytes(range(256)) * 10, "not in any format known"),
    "gzip": (lambda: gzip.compress(b"x" * 100), "gzip"),
    "hdf5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    "numpy": (lambda: b"\x93NUMPY\x01\x00v\x00{'descr'", "NumPy array"),
    "gguf": (lambda: b"GGUF\x03\x00\x00\x00" + bytes(30), "GGUF"),
    "npz": (lambda: zipped({"arr_0.npy": b"x"}), "NumPy .npz"),
    "docx": (lambda: zipped({"word/document.xml": b"x"}), "Word document"),
    "other zip": (lambda: zipped({"readme.txt": b"x"}), "not one that torch.save wrote"),
    "packed": (lambda: zipped({"best.pt": b"x"}), "unpack it first"),
    "empty zip": (lambda: zipped({}), "empty zip"),
    "old tar": (lambda: tarred("sys_info"), "before 0.1.10"),
    "tar": (lambda: tarred("readme"), "tar archive"),
    "one byte": (lambda: b"P", "cut"),
    "pk": (lambda: b"PK\x03\x04", "cut"),
}


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return out.getvalue()


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_checkpoint_is_named(tmp_path: Path, kind: str) -> None:
    make, words = OTHERS[kind]
    path = tmp_path / "x.pt"
    path.write_bytes(make())
    assert words in str(refused(path))


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "nothing.pt").reason == "missing"
    assert "no path" in str(refused(tmp_path / "a\0b"))
    (tmp_path / "empty").mkdir()
    assert "empty folder" in str(refused(tmp_path / "empty"))
    os.mkfifo(tmp_path / "pipe")
    assert "no file" in str(refused(tmp_path / "pipe"))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert refused(tmp_path / "loop").reason == "missing"


def rewritten(path: Path, changed: dict[str, bytes | None]) -> None:
    """The same zip with some records replaced or left out, as torch writes it: stored."""
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            new = changed.get(name.partition("/")[2], data)
            if new is not None:
                archive.writestr(name, new)


def test_two_writers_leave_records_of_the_wrong_size(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(CONTENT, path)
    rewritten(path, {"data/2": b"short"})
    problems = open_checkpoint(path).problems
    assert "1 of 6 tensor records have the wrong size (data/2 has 5 bytes" in problems[0]


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(CONTENT, path)
    rewritten(path, {"data/4": None})
    assert "1 of 6 tensor records are missing from it, data/4" in open_checkpoint(path).problems[0]


def test_a_compressed_pickle_is_read_and_a_bomb_of_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(CONTENT, path)
    with zipfile.ZipFile(path) as archive:
        pickled = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickled)
    assert open_checkpoint(path).tree["epoch"] == 3
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a/data.pkl", "w") as record:
            for _ in range(70):
                record.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert refused(path).reason == "too much"


def test_a_zip_of_more_than_4_gb_is_read(tmp_path: Path) -> None:
    """Sparse, so it takes no room; its table has the 64-bit numbers."""
    path = tmp_path / "large.pt"
    storage = torch.UntypedStorage.from_file(str(tmp_path / "raw"), True, (4 << 30) + 4096)
    large = torch.tensor([], dtype=torch.uint8).set_(storage)
    with torch.serialization.skip_data():
        torch.save({"a": large, "b": torch.ones(3)}, path)
    found = open_checkpoint(path)
    assert found.tree["a"].nbytes == (4 << 30) + 4096
    assert found.nbytes > 4 << 30
    assert not found.problems
    part = found.locate(found.tree["b"].storage)
    assert part is not None
    assert part.at > 4 << 30


def safetensors(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


GOOD = {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}


def test_safetensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(GOOD, bytes(24)))
    found = open_checkpoint(path)
    assert found.kind == "safetensors"
    assert found.tree["w"].shape == (2, 3)
    assert not found.problems


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (safetensors(GOOD, bytes(12)), "is cut"),
        (safetensors(GOOD, bytes(24))[:30], "within its header"),
        (safetensors(b'{"w": nonsense', b""), "no JSON"),
        (safetensors(b'{"a":' * 50_000, b""), "no JSON"),
        (safetensors({"w": {"dtype": "F32", "shape": [2, 3]}}, bytes(24)), "makes no sense"),
        (safetensors({"w": {**GOOD["w"], "shape": [-2, 3]}}, bytes(24)), "makes no sense"),
        (safetensors({"w": {**GOOD["w"], "shape": [2**70]}}, bytes(24)), "makes no sense"),
        (safetensors({"w": {**GOOD["w"], "shape": [7]}}, bytes(24)), "makes no sense"),
        (safetensors({"w": "F32"}, bytes(24)), "makes no sense"),
    ],
)
def test_safetensors_that_are_damaged_are_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    assert words in str(refused(path))


def test_safetensors_with_bytes_of_nobody_or_of_two(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(GOOD, bytes(40)))
    assert "belong to no tensor" in open_checkpoint(path).problems[0]
    path.write_bytes(safetensors({**GOOD, "v": GOOD["w"]}, bytes(24)))
    assert "overlap" in open_checkpoint(path).problems[0]


def test_two_pickles_in_one_archive_are_suspicious(tmp_path: Path) -> None:
    """torch finds records without regard to case, and takes the folder of the first one."""
    path = tmp_path / "a.pt"
    torch.save({"epoch": 1}, path)
    first = zipfile.ZipFile(path).read("a/data.pkl")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a/DATA.PKL", first)
    assert "tampered" in open_checkpoint(path).problems[0]
    torch.save({"epoch": 1}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b/data.pkl", b"\x80\x02N.")
    assert open_checkpoint(path).tree == {"epoch": 1}
    with pytest.warns(UserWarning, match="Duplicate"):
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("a/data.pkl", first)
    assert "tampered" in open_checkpoint(path).problems[0]
