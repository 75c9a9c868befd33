"""One integer for all the bits of a tensor, computed where the tensor lies.

The tensor is read once, as rows of 32-bit words. Each lane (a column of words) is a chain
``state = mix(state * odd + word)``. The multiplication can be undone, so a lane in which one word
changed ends in another state. Mixing brings the top bits down: without it the sign of a number
stays in the top bit for ever, and two changed signs cancel. The states are chained again until
few are left, and those are summed with odd weights.

A CPU walks the rows block by block, so that the states stay in its cache; a block is long enough
for torch's own threads to be worth their meeting after every step. (Threads of Python's, a block
each, took turns with the interpreter: slower than one.) A GPU takes whole rows. All compute the
same number.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

_WORD, _PAIR = torch.int32, torch.int64
_ROWS = 64
_LANES = 1 << 14  # as many states are summed in the end
_BLOCK = 1 << 19  # words: 2 MB of states
_ODD = 0x2545F491
_START = 0x1B873593
_DOWN = 15
_ALL = (1 << 64) - 1


def fingerprint(tensor: Tensor) -> int:
    """Returns one integer that stands for the tensor's bits, its shape and its dtype.

    Equal bits give equal integers, on any device and whatever the strides; NaN, infinities and
    the sign of zero count. A change is missed by a chance of 1 in 2**32 at worst, one within 4
    aligned bytes of 1 in 2**57. It finds accidents, not forgeries.

    Args:
        tensor: Any shape, also empty and 0-d, any dtype, any device; sparse ones by their parts.

    Returns:
        An integer in [0, 2**64).

    Raises:
        TypeError: It is no tensor, has no bits to read (meta device, not initialised), or hides
            them.

    Example:
        >>> import torch
        >>> fingerprint(torch.zeros(3)) == fingerprint(-torch.zeros(3))
        False
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a fingerprint is of a torch.Tensor, not of a {type(tensor).__name__}")
    return finish(digest(tensor), tensor)


@torch.no_grad()
def digest(tensor: Tensor) -> Tensor:
    """Returns the bits' digest, 0-d int64 on the tensor's device: no wait for a GPU."""
    total = None
    for part in _dense_parts(tensor):
        one = _digest_of_words(part)
        total = one if total is None else total * _ODD + one
    assert total is not None
    return total


def finish(digested: Tensor | int, tensor: Tensor) -> int:
    """Returns the fingerprint, given the digest of the bits: shape and dtype become part of it."""
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}".encode()
    salt = int.from_bytes(hashlib.blake2b(kind, digest_size=8).digest(), "little")
    value = (int(digested) ^ salt) & _ALL
    # Invertible (splitmix64), so that every bit of the digest moves half of the result's.
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _ALL
    return value ^ (value >> 31)


def _dense_parts(tensor: Tensor) -> Iterator[Tensor]:
    """Yields the dense tensors that hold a tensor's bits: itself, or the parts of a sparse one."""
    if is_lazy(tensor):
        raise TypeError("a lazy parameter has no values before the first forward")
    tensor = tensor.detach()
    if tensor.device.type == "meta":
        raise TypeError("a tensor on the meta device has a shape but no values")
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        yield from (tensor.indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.is_quantized:
        raise TypeError("a quantized tensor hides its scale: use tensor.int_repr()")
    else:
        yield tensor


def words_of(tensor: Tensor) -> Tensor:
    """Returns the bytes of a dense tensor as 32-bit words, 1-d; no copy where none is needed.

    The last word is filled up with zeros; the shape, which is part of the fingerprint, tells
    them from real ones.
    """
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.numel() == 0:
        return torch.empty(0, dtype=_WORD, device=flat.device)
    if flat.element_size() == 4 and not flat.is_complex():
        return flat.view(_WORD)
    data = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    data = data.view(torch.uint8)
    if spare := -data.numel() % 4:
        data = torch.nn.functional.pad(data, (0, spare))
    elif data.storage_offset() % 4:  # a slice that starts within a word
        data = data.clone()
    return data.view(_WORD)


def _digest_of_words(tensor: Tensor) -> Tensor:
    words = words_of(tensor)
    first = True
    while first or words.numel() > _LANES:
        words = _chained(words)
        first = False
    return (words * _weights(words.device)[: words.numel()]).sum()


def _chained(words: Tensor) -> Tensor:
    """Returns the state of every lane after its last row, and after them what filled no row."""
    rows = max(1, min(_ROWS, -(-words.numel() // _LANES)))
    lanes = words.numel() // rows & ~1  # even: states are mixed in pairs
    table = words[: rows * lanes].view(rows, lanes)
    rest = words[rows * lanes :]
    states = torch.full((lanes + rest.numel(),), _START, dtype=_WORD, device=words.device)
    states[lanes:] = rest
    if words.device.type != "cpu":
        _chain(table, states[:lanes])
        return states
    for begin in range(0, lanes, _BLOCK):
        end = min(begin + _BLOCK, lanes)
        _chain(table[:, begin:end], states[begin:end])
    return states


def _chain(table: Tensor, state: Tensor) -> None:
    """Chains the rows of a table, in place.

    A shift fills in the sign, so two states, each the other's complement, are mixed into one; two
    of 64 bits are, while 32 bits are multiplied: after a change of one word they never are.
    """
    pairs = state.view(_PAIR)
    moved = torch.empty_like(pairs)
    for row in table.unbind(0):
        torch.add(row, state, alpha=_ODD, out=state)
        torch.bitwise_right_shift(pairs, _DOWN, out=moved)
        pairs.bitwise_xor_(moved)


@functools.lru_cache(maxsize=16)
def _weights(device: torch.device) -> Tensor:
    """Returns an odd 64-bit number for each lane, the same on every device."""
    value = torch.arange(1, _LANES + 2 * _ROWS + 1, dtype=torch.int64, device=device)
    value *= -0x61C8864680B583EB
    for down, odd in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        value ^= (value >> down) & ((1 << (64 - down)) - 1)
        value *= odd
    return value | 1
