"""--deep: every byte is read, and what is not as it was written is named."""

from __future__ import annotations

import io
import json
import random
import zipfile
import zlib
from pathlib import Path

import pytest
import torch

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.deep import Progress, _zero_run, examine
from loadwrap.checkpoints.formats import open_checkpoint
from loadwrap.doctor import main


def large(tmp_path: Path, **options: bool) -> Path:
    torch.manual_seed(0)
    model = {f"layer{index}.weight": torch.randn(300, 300) for index in range(4)}
    model["zero.bias"] = torch.zeros(5000)
    return layouts.save(tmp_path, {"model": model}, **options)


def damaged(path: Path, name: str, change: bytes, into: int = 100_000) -> None:
    found = open_checkpoint(path)
    part = found.locate(found.tree["model"][name].storage)
    assert part is not None
    with path.open("r+b") as file:
        file.seek(part.at + into)
        file.write(change)


def test_a_whole_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = large(tmp_path)
    assert main([str(path), "--deep"]) == 0
    assert "match their CRC" in capsys.readouterr().out
    examined = examine(open_checkpoint(path))
    with zipfile.ZipFile(path) as archive:
        assert examined.nbytes == sum(info.file_size for info in archive.infolist())
    assert examined.damages == []


def test_two_kilobytes_of_zeros_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torch.load takes such a file without a word."""
    path = large(tmp_path)
    damaged(path, "layer2.weight", bytes(2000))
    torch.load(path)
    assert main([str(path)]) == 0
    assert main([str(path), "--deep"]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert 'ckpt["model"]["layer2.weight"]' in said
    assert "CRC" in said
    assert "zeros in a row" in said


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = large(tmp_path)
    whole = path.read_bytes()
    found = open_checkpoint(path)
    parts = found.parts()
    pick = random.Random(3)
    for _ in range(40):
        part = pick.choice(parts)
        at = part.at + pick.randrange(part.nbytes)
        changed = bytearray(whole)
        changed[at] ^= 1 << pick.randrange(8)
        path.write_bytes(changed)
        examined = examine(found)
        assert [one.record for one in examined.damages or []] == [part.name]


def test_a_record_that_is_all_zeros(tmp_path: Path) -> None:
    path = large(tmp_path)
    damaged(path, "layer1.weight", bytes(300 * 300 * 4), into=0)
    examined = examine(open_checkpoint(path))
    assert examined.damages is not None
    assert "is all zeros" in examined.damages[0].words


def test_without_checksums_stretches_of_zeros_are_shown(tmp_path: Path) -> None:
    path = large(tmp_path, _use_new_zipfile_serialization=False)
    assert examine(open_checkpoint(path)).suspects == []
    damaged(path, "layer0.weight", bytes(5000))
    examined = examine(open_checkpoint(path))
    assert examined.damages == []
    assert examined.suspects is not None
    assert "layer0.weight" in examined.suspects[0].words


def test_compressed_records_are_read(tmp_path: Path) -> None:
    path = large(tmp_path)
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    examined = examine(open_checkpoint(path))
    assert examined.damages == []
    assert examined.nbytes == sum(map(len, records.values()))


@pytest.mark.parametrize("seed", range(30))
def test_the_longest_run_of_zeros(seed: int) -> None:
    pick = random.Random(seed)
    data = bytearray(pick.randbytes(5000).replace(b"\0", b"\1"))
    longest = 0
    for _ in range(pick.randrange(3)):
        at, length = pick.randrange(4000), pick.randrange(512, 900)
        data[at : at + length] = bytes(length)
    run = 0
    for byte in data:
        run = run + 1 if byte == 0 else 0
        longest = max(longest, run)
    cut = pick.randrange(1, 4999)
    run, first, _ = _zero_run(bytes(data[:cut]), 0)
    run, second, _ = _zero_run(bytes(data[cut:]), run)
    assert max(first, second, run) >= longest >= max(first, second)


def test_progress_is_shown_on_anything_long() -> None:
    out = io.StringIO()
    progress = Progress(10**9, out)
    progress(1)
    assert out.getvalue() == ""
    progress.started -= 60
    progress.shown -= 60
    progress(5 * 10**8)
    assert out.getvalue() == "500 MB of 1 GB read\n"


def test_a_file_that_is_not_the_one_of_its_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = large(tmp_path)
    data = path.read_bytes()
    beside = tmp_path / "last.pt.manifest.json"
    told = {"size": len(data), "checksums": {"crc32": f"{zlib.crc32(data):08x}"}}
    beside.write_text(json.dumps(told))
    assert main([str(path), "--deep"]) == 0
    beside.write_text(json.dumps({**told, "checksums": {"crc32": "00000000"}}))
    assert main([str(path), "--deep"]) == 2
    assert "that its manifest describes" in " ".join(capsys.readouterr().out.split())
    beside.write_text(json.dumps({**told, "size": 10}))
    assert main([str(path)]) == 0
    assert "describes another file" in capsys.readouterr().out
