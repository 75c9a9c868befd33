"""What weights_only refuses is named with a way round it, and the way works."""

from __future__ import annotations

import argparse
import collections
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.refusals import dangerous, refusal_lines
from loadwrap.checkpoints.formats import open_checkpoint

VALUES: dict[str, Any] = {
    "namespace": argparse.Namespace(lr=0.1, nested=argparse.Namespace(a=[1])),
    "path": Path("/data"),
    "empty defaultdict": collections.defaultdict(list),
    "numpy scalar": numpy.float64(0.5),
    "numpy integer": numpy.int32(3),
    "numpy array": numpy.zeros((2, 3), dtype=numpy.float32),
    "everything": [argparse.Namespace(p=Path("x"), n=numpy.float32(1))],
}


@pytest.mark.parametrize("name", VALUES)
def test_the_line_that_allows_it_works(tmp_path: Path, name: str) -> None:
    path = layouts.save(tmp_path, {"model": {"a.weight": torch.ones(2)}, "extra": VALUES[name]})
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    line = refusal_lines(open_checkpoint(path))[-1]
    found = re.search(r"names: (?:(import .*?); )?torch\.load\(path\) inside `(with .*:)`", line)
    assert found, line
    names: dict[str, Any] = {"torch": torch, "path": path}
    exec(f"{found[1] or ''}\n{found[2]}\n    loaded = torch.load(path)", names)
    assert torch.equal(names["loaded"]["model"]["a.weight"], torch.ones(2))


def test_a_filled_mapping_of_another_class_cannot_be_allowed(tmp_path: Path) -> None:
    content = {"model": {"a.weight": torch.ones(2)}, "log": collections.defaultdict(list, a=[1])}
    path = layouts.save(tmp_path, content)
    with torch.serialization.safe_globals([collections.defaultdict, list]):
        with pytest.raises(pickle.UnpicklingError):
            torch.load(path)
    said = " ".join(refusal_lines(open_checkpoint(path)))
    assert "fills no collections.defaultdict" in said
    assert "safe_globals" not in said


def test_one_line_for_what_lies_inside_something_refused(tmp_path: Path) -> None:
    path = layouts.save(tmp_path, {"model": {}, "args": argparse.Namespace(out=Path("x"))})
    lines = refusal_lines(open_checkpoint(path))
    assert len(lines) == 2
    assert 'argparse.Namespace at ckpt["args"]' in lines[0]
    assert "vars(args)" in lines[0]


def test_a_newer_pickle_protocol_is_named(tmp_path: Path) -> None:
    path = layouts.save(tmp_path, {"model": {"a.weight": torch.ones(2)}}, pickle_protocol=4)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    assert "protocol 2 alone; this file is protocol 4" in refusal_lines(open_checkpoint(path))[0]


def test_a_pickled_module_is_no_data(tmp_path: Path) -> None:
    said = " ".join(refusal_lines(open_checkpoint(layouts.yolo(tmp_path))))
    assert "a whole pickled module" in said
    assert "safe_globals" not in said


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_torchscript_archive_is_named(tmp_path: Path) -> None:
    path = layouts.clip(tmp_path)
    found = open_checkpoint(path)
    assert "torch.jit.load" in refusal_lines(found)[0]
    expected = torch.jit.load(path).state_dict()
    assert {name: tensor.shape for name, tensor in found.tree.items()} == {
        name: tuple(tensor.shape) for name, tensor in expected.items()
    }


def test_a_sharded_tensor_is_seen_and_named(tmp_path: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        tensor = distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)])
        path = layouts.save(tmp_path, {"model": {"a.weight": tensor, "b.weight": torch.ones(2)}})
    finally:
        dist.destroy_process_group()
    from loadwrap.checkpoints.doctoring.weights import find_weights

    found = open_checkpoint(path)
    tensors = find_weights(found.tree)[0].tensors
    assert (tensors["a.weight"].shape, tensors["a.weight"].kind) == ((4, 3), "sharded")
    assert "import torch.distributed.tensor" in refusal_lines(found)[0]


@pytest.mark.parametrize(
    "name",
    ["os.system", "posix.system", "builtins.eval", "subprocess.Popen", "builtins.getattr",
     "runpy.run_path", "operator.attrgetter", "importlib.import_module", "torch.hub.load",
     "webbrowser.open", "pickle.loads", "torch.load", "numpy.load", "io.open", "codecs.open"],
)  # fmt: skip
def test_names_that_run_code_are_known(name: str) -> None:
    assert dangerous(name)


@pytest.mark.parametrize(
    "name",
    ["argparse.Namespace", "collections.defaultdict", "builtins.list", "numpy.dtype", "io.BytesIO"],
)
def test_names_of_plain_data_are_not_called_dangerous(name: str) -> None:
    assert not dangerous(name)


@pytest.mark.parametrize(
    ("pickled", "words"),
    [
        (b"\x80\x02}q\x002}s.", "refuses the pickle opcode DUP, of whatever protocol"),
        (pickle.dumps({"a": 1 << 4000}, 2), "opcode LONG4 (an integer of more than 255 bytes)"),
        (pickle.dumps({"a": 1}, 0), "protocol 2 alone; this file is protocol 0"),
        (pickle.dumps({"a": b"1"}, 3), "protocol 2 alone; this file is protocol 3"),
    ],
)
def test_an_opcode_is_named_if_it_is_not_the_protocol(
    tmp_path: Path, pickled: bytes, words: str
) -> None:
    path = tmp_path / "odd.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("odd/data.pkl", pickled)
        archive.writestr("odd/version", b"3\n")
    assert words in " ".join(refusal_lines(open_checkpoint(path)))
