"""Names a file that is no checkpoint as what it is."""

from __future__ import annotations

import re

_MAGIC = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\x7fELF", "a program (ELF)"),
    (b"\x89HDF", "an HDF5 file, as Keras writes its weights"),
    (b"GGUF", "a GGUF file, for llama.cpp"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
)


def what_is_it(head: bytes, zeros: bool = False) -> str:
    """A few words on what a file is, from its first bytes.

    Args:
        head: Its first bytes, some kilobytes.
        zeros: Whether every byte that was looked at is zero.
    """
    if zeros:
        return "nothing but zero bytes: its space was reserved and never written"
    for magic, words in _MAGIC:
        if head.startswith(magic):
            return words
    if head.startswith(b"version https://git-lfs"):
        size = re.search(rb"\nsize (\d{1,20})", head)
        real = f" of {size[1].decode()} bytes" if size else ""
        return f"a Git LFS pointer, not the file{real} it stands for: run `git lfs pull`"
    start = head[:1024].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head")):
        return "a web page (HTML): the download was answered by a page, not by the file"
    if start.startswith(b"<?xml"):
        return "an XML document, often the error message of a download"
    if head[257:262] == b"ustar":
        return "a tar archive"
    text = _as_text(head)
    if text is not None:
        first = text.strip().splitlines()[0][:60] if text.strip() else ""
        sort = "JSON text" if start.startswith((b"{", b"[")) else "text"
        return f'{sort} that starts "{_printable(first)}"' if first else "blank text"
    return "not in any format known here"


def _as_text(head: bytes) -> str | None:
    try:
        text = head[:2048].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head[:2048]) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    odd = sum(1 for letter in text if ord(letter) < 32 and letter not in "\t\r\n\f")
    return text if odd == 0 else None


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def what_zip(names: list[str]) -> str:
    """A few words on a zip that holds no checkpoint, from the names in it."""
    if any(name.endswith(".npy") for name in names):
        return "a NumPy .npz archive"
    if any(name.startswith("word/") for name in names):
        return "a Word document"
    if any(name.endswith(".dist-info/METADATA") for name in names):
        return "a Python wheel"
    if "config.json" in names and any(name.endswith(".h5") for name in names):
        return "a Keras model"
    if any(name.endswith((".pt", ".pth", ".bin", ".ckpt", ".safetensors")) for name in names):
        return "a zip that was packed around a checkpoint: unpack it first"
    if not names:
        return "an empty zip archive"
    listed = ", ".join(_printable(name[:40]) for name in names[:3])
    return f"a zip archive, but not one that torch.save wrote (it holds {listed})"
