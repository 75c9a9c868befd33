"""A fingerprint tells every change of a tensor's bits, and nothing else."""

import random

import pytest
import torch

from loadwrap.checkpoints import fingerprint

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint16,
    torch.uint32,
    torch.complex32,
]


def bits(dtype, *shape, seed=0):
    """A tensor of random bits: NaNs, infinities and denormals among them."""
    size = torch.tensor([], dtype=dtype).element_size()
    count = size * torch.Size(shape).numel()
    generator = torch.Generator().manual_seed(seed)
    data = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator)
    if dtype is torch.bool:
        return (data % 2).bool().view(shape)
    return data.view(dtype).view(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_shape_and_stride(dtype):
    tensor = bits(dtype, 5, 7)
    value = fingerprint(tensor)
    assert 0 <= value < 2**64 and value == fingerprint(tensor.clone())
    across = torch.empty_strided((5, 7), (1, 5), dtype=dtype).copy_(tensor)
    assert fingerprint(across) == value
    wide = torch.empty(5, 9, dtype=dtype)
    wide[:, 1:8].copy_(tensor)
    assert fingerprint(wide[:, 1:8]) == value
    shifted = torch.empty(36, dtype=dtype)
    shifted[1:].copy_(tensor.reshape(-1))
    assert fingerprint(shifted[1:].view(5, 7)) == value
    others = [tensor.view(7, 5), tensor.reshape(-1), tensor[:, :6], tensor[:4], tensor[None]]
    assert len({value, *map(fingerprint, others)}) == 6


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_single_element_counts(dtype):
    for size in (1, 2, 3, 13):
        tensor = torch.zeros(size, dtype=dtype)
        seen = {fingerprint(tensor)}
        for index in range(size):
            changed = tensor.clone()
            changed[index] = 1
            seen.add(fingerprint(changed))
        assert len(seen) == size + 1


def test_shape_and_dtype_are_part_of_the_value():
    zeros = [
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.zeros(3, 0),
        torch.zeros(()),
        torch.zeros(1),
        torch.zeros(4),
        torch.zeros(4, dtype=torch.int32),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(8, dtype=torch.bfloat16),
        torch.zeros(8, dtype=torch.float16),
        torch.zeros(3, dtype=torch.int8),
        torch.zeros(4, dtype=torch.int8),
        torch.zeros(5, dtype=torch.int8),
    ]
    assert len({fingerprint(tensor) for tensor in zeros}) == len(zeros)


def test_not_a_number_and_the_sign_of_zero_count():
    zero, negative = torch.tensor([0.0]), torch.tensor([-0.0])
    quiet = torch.tensor([0x7FC00000], dtype=torch.int32).view(torch.float32)
    other = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    values = [fingerprint(one) for one in (zero, negative, quiet, other)]
    assert len(set(values)) == 4
    assert fingerprint(quiet.clone()) == values[2]


def test_values_that_are_stored_otherwise_are_equal():
    tensor = torch.randn(4, 6, dtype=torch.complex64)
    assert fingerprint(tensor.conj()) == fingerprint(tensor.conj().resolve_conj())
    assert fingerprint(tensor.imag) == fingerprint(tensor.imag.clone())
    assert fingerprint(torch.ones(1).expand(3, 4)) == fingerprint(torch.ones(3, 4))
    images = torch.randn(2, 3, 4, 5)
    assert fingerprint(images.to(memory_format=torch.channels_last)) == fingerprint(images)
    parameter = torch.nn.Parameter(images.clone())
    assert fingerprint(parameter) == fingerprint(images)
    with torch.inference_mode():
        assert fingerprint(images.clone()) == fingerprint(images)


def test_sparse_tensors_by_their_parts():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert fingerprint(dense.to_sparse()) == fingerprint(dense.to_sparse())
    assert fingerprint(dense.to_sparse()) != fingerprint((2 * dense).to_sparse())
    assert fingerprint(dense.to_sparse_csr()) != fingerprint(dense.flip(1).to_sparse_csr())


def test_a_tensor_without_values_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match="meta device has a shape but no values"):
        fingerprint(torch.zeros(3, device="meta"))
    with pytest.raises(TypeError, match="lazy parameter"):
        fingerprint(torch.nn.LazyLinear(3).weight)


def changes(words, number, seed):
    """Yields, ``number`` times, a tensor that is changed in place and then changed back."""
    dice = random.Random(seed)
    size = words.numel()
    top = -(2**31)
    # Distances at which words share a state.
    lanes = [size // rows & ~1 for rows in (-(-size // (1 << 14)), *range(2, 65))]
    kinds = ("single", "sign", "signs", "signs in a lane", "pair", "swap", "swap in a lane")
    for turn in range(number):
        kind = kinds[turn % len(kinds)]
        one = dice.randrange(size)
        other = (one + dice.randrange(1, size)) % size
        if kind.endswith("lane"):
            other = (one + lanes[dice.choice((0, 0, 1, 2, 5, 30))] * dice.randrange(1, 4)) % size
        if other == one:
            continue
        before = words[one].item(), words[other].item()
        if kind == "single":
            words[one] ^= dice.randrange(1, 2**31)
        elif kind == "sign":
            words[one] ^= top
        elif kind.startswith("signs"):
            words[one] ^= top
            words[other] ^= top
        elif kind == "pair":
            step = dice.choice((1, 2**12, 2**23))
            words[one] += step
            words[other] -= step
        else:
            words[one], words[other] = before[1], before[0]
        if before != (words[one].item(), words[other].item()):
            yield kind
        words[one], words[other] = before


@pytest.mark.parametrize("size", [7, 1000, 70_000, 1_000_000])
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16 as float32"])
def test_no_change_is_missed(size, narrow):
    generator = torch.Generator().manual_seed(size)
    tensor = torch.randn(size, generator=generator)
    if narrow:  # the lower halves of all words are zero
        tensor = tensor.bfloat16().float()
    value = fingerprint(tensor)
    number = 10_000 if size < 100_000 else 700
    missed = [
        k for k in changes(tensor.view(torch.int32), number, size) if fingerprint(tensor) == value
    ]
    assert missed == []
    assert fingerprint(tensor) == value  # every change was taken back


def test_signs_of_a_whole_row_and_a_swap_of_halves():
    tensor = torch.randn(1 << 20)
    seen = {fingerprint(tensor)}
    for count in (2, 4, 64, 1 << 10, 1 << 19, 1 << 20):
        changed = tensor.clone()
        changed[:count].neg_()
        seen.add(fingerprint(changed))
    seen.add(fingerprint(tensor.roll(1 << 19)))
    seen.add(fingerprint(tensor.flip(0)))
    assert len(seen) == 9


def test_the_walk_through_a_tensor_does_not_change_the_value(monkeypatch):
    """A GPU takes whole rows, a CPU blocks of them; the number must not depend on it."""
    from loadwrap.checkpoints.replicas import fingerprint as module

    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    tensor = torch.randn(5_000_003)
    value = module.fingerprint(tensor)
    for block in (1 << 12, 1 << 30):
        monkeypatch.setattr(module, "_BLOCK", block)
        assert module.fingerprint(tensor) == value
