"""What the doctor finds in the checkpoints that people have."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.contents import Contents, read_contents
from loadwrap.checkpoints.doctoring.examination import examine_file
from loadwrap.checkpoints.formats import open_checkpoint
from loadwrap.doctor import main


def contents(path: Path) -> Contents:
    return read_contents(open_checkpoint(path))


# layout: entry with the weights, optimizer, parts, missing
EXPECTED: dict[str, tuple[str, str, set[str], set[str]]] = {
    "imagenet": ('ckpt["state_dict"]', "SGD with momentum", {"epoch", "scheduler"}, {"rng"}),
    "ddp_tutorial": ('ckpt["MODEL_STATE"]', "", {"epoch"}, {"optimizer", "scheduler", "rng"}),
    "torchvision": (
        'ckpt["model"]', "SGD with momentum", {"epoch", "scheduler", "scaler", "ema"}, {"rng"},
    ),
    "timm": ('ckpt["state_dict"]', "AdamW", {"epoch", "scaler", "ema"}, {"scheduler", "rng"}),
    "nanogpt": ('ckpt["model"]', "AdamW", {"step"}, {"scheduler", "rng"}),
    "lightning": ('ckpt["state_dict"]', "Adam", {"epoch", "step", "scheduler"}, {"rng"}),
    "mmengine": (
        'ckpt["state_dict"]', "SGD with momentum", {"epoch", "step", "scheduler"}, {"rng"},
    ),
    "detectron2": ('ckpt["model"]', "SGD with momentum", {"step", "scheduler"}, {"rng"}),
    "fairseq": ('ckpt["model"]', "Adam", {"epoch", "step", "sampler"}, {"scheduler", "rng"}),
    "yolo": (
        'ckpt["model"].state_dict()', "", {"epoch", "step", "ema"},
        {"optimizer", "scheduler", "rng"},
    ),
    "moco": ('ckpt["state_dict"]', "SGD with momentum", {"epoch"}, {"scheduler", "rng"}),
    "dino": ('ckpt["student"]', "AdamW", {"epoch", "scaler"}, {"scheduler", "rng"}),
    "dinov2": ('ckpt["model"]', "", {"step"}, {"optimizer", "scheduler", "rng"}),
    "simclr": ('ckpt["state_dict"]', "Adam", {"epoch"}, {"scheduler", "rng"}),
    "byol": ("ckpt", "", set(), {"optimizer", "scheduler", "rng", "epoch"}),
    "mae": ('ckpt["model"]', "AdamW", {"epoch", "scaler"}, {"scheduler", "rng"}),
    "clip": ("ckpt", "", set(), {"optimizer", "scheduler", "rng", "epoch"}),
    "whisper": (
        'ckpt["model_state_dict"]', "", set(), {"optimizer", "scheduler", "rng", "epoch"},
    ),
    "trainer_folder": ("ckpt", "AdamW", {"step", "scheduler", "rng"}, set()),
    "shards": ("ckpt", "", set(), {"optimizer", "scheduler", "rng", "epoch"}),
    "peft": ("ckpt", "", set(), {"optimizer", "scheduler", "rng", "epoch"}),
    "averaged": ("ckpt", "", {"ema"}, {"optimizer", "scheduler", "rng", "epoch"}),
    "deepspeed": ('ckpt["module"]', "", {"step", "optimizer", "scheduler"}, {"rng"}),
    "megatron": (
        'ckpt["model"]["language_model"]["encoder"]', "", {"step"},
        {"optimizer", "scheduler", "rng"},
    ),
    "everything": (
        'ckpt["model"]', "AdamW",
        {"epoch", "step", "scheduler", "scaler", "ema", "rng", "sampler"}, set(),
    ),
}  # fmt: skip
WORDS = {"random state": "rng", "epoch or step": "epoch"}


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_every_layout_is_read_rightly(tmp_path: Path, layout: str) -> None:
    entry, kind, parts, missing = EXPECTED[layout]
    found = contents(layouts.LAYOUTS[layout](tmp_path))
    assert found.weights[0].code == entry
    assert [one.kind for one in found.optimizers] == ([kind] if kind else [])
    assert set(found.parts) == parts
    assert {WORDS.get(one, one.partition(" (")[0]) for one in found.missing} == missing


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("adamw", "AdamW"),
        ("adam", "Adam"),
        ("sgd", "SGD with momentum"),
        ("plain", "SGD without momentum"),
        ("rmsprop", "RMSprop"),
    ],
)
def test_the_optimizer_is_known_by_its_state(tmp_path: Path, kind: str, told: str) -> None:
    net, optimizer, _ = layouts.trained(kind=kind)
    path = layouts.save(tmp_path, {"model": net.state_dict(), "optim": optimizer.state_dict()})
    one = contents(path).optimizers[0]
    assert (one.kind, one.parameters, one.groups) == (told, 10, 1)
    state = optimizer.state_dict()["state"].values()
    held = [v for entry in state for v in entry.values() if isinstance(v, torch.Tensor)]
    assert one.nbytes == sum(v.numel() * v.element_size() for v in held)
    assert one.rates == [optimizer.param_groups[0]["lr"]]


@pytest.mark.parametrize(
    "make",
    [
        torch.optim.Adamax, torch.optim.NAdam, torch.optim.Adadelta, torch.optim.Adagrad,
        torch.optim.ASGD, torch.optim.Rprop, torch.optim.LBFGS, torch.optim.Adafactor,
    ],
)  # fmt: skip
def test_other_optimizers_are_known_with_and_without_state(tmp_path: Path, make: type) -> None:
    net = torch.nn.Linear(3, 2)
    optimizer = make(net.parameters())
    for step in range(2):
        path = layouts.save(tmp_path, {"a": net.state_dict(), "o": optimizer.state_dict()})
        one = contents(path).optimizers[0]
        if step or make not in (torch.optim.Adafactor, torch.optim.Adamax):
            assert one.kind == make.__name__

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(torch.ones(1, 3)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)


def test_an_empty_optimizer_state_is_said(tmp_path: Path) -> None:
    net = layouts.Net()
    state = torch.optim.AdamW(net.parameters()).state_dict()
    path = layouts.save(tmp_path, {"model": net.state_dict(), "optimizer": state})
    from loadwrap.checkpoints.doctoring.report import write_report

    assert "state EMPTY" in write_report(examine_file(str(path)))


def test_a_disabled_scaler_and_an_empty_scheduler(tmp_path: Path) -> None:
    path = layouts.save(tmp_path, {"model": layouts.Net().state_dict(), "scaler": {}, "sched": {}})
    found = contents(path)
    assert "disabled" in found.parts["scaler"][0].words
    assert "scheduler" in found.missing[1]


def test_size_dtype_and_device_of_the_weights(tmp_path: Path) -> None:
    net = layouts.Language()
    path = layouts.save(tmp_path, {"model": net.state_dict()})
    one = contents(path).weights[0]
    held = sum(p.numel() * 4 for p in net.parameters())
    assert one.nbytes == held  # the tied pair is one memory
    assert {tensor.device for tensor in one.tensors.values()} == {"cpu"}


def test_a_tensor_on_a_gpu_is_told_from_the_header(tmp_path: Path) -> None:
    path = layouts.save(tmp_path, {"model": {"a.weight": torch.ones(2)}})
    data = path.read_bytes()
    # The location is text in the pickle: as long a name keeps every length as it was.
    path.write_bytes(data.replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00xpu"))
    assert contents(path).weights[0].tensors["a.weight"].device == "xpu"


def test_wrappers_are_read_off_the_names(tmp_path: Path) -> None:
    one = contents(layouts.timm(tmp_path)).weights[0]
    assert one.wrappers == ("_orig_mod", "module")
    net = {f"module.{k}": v for k, v in copy.deepcopy(layouts.Net()).state_dict().items()}
    path = layouts.save(tmp_path, {**net, "other.weight": torch.ones(1)})
    assert contents(path).weights[0].wrappers == ()


def test_a_dict_that_holds_itself_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole: dict[str, object] = {"self": None, "a.weight": torch.ones(2), "b.weight": torch.ones(2)}
    whole["self"] = whole
    main([str(layouts.save(tmp_path, whole))])
    assert "ckpt:" in (said := capsys.readouterr().out)
    assert 'ckpt["self"]' not in said
    model: dict[str, object] = {"a.weight": torch.ones(2)}
    model["self"] = model
    optimizer = torch.optim.SGD([torch.ones(1)], 0.1).state_dict()
    run = {"model": model, "optimizer": optimizer, "epoch": 3, "all": None}
    run["all"] = run
    path, like = layouts.save(tmp_path, run), layouts.save(tmp_path, model, "good.pt")
    assert main([str(path), "--like", str(like)]) == 1  # load_state_dict would refuse the "self"
    said = capsys.readouterr().out
    assert (said.count("  weights        "), said.count("  optimizer  ")) == (1, 1)
    assert '["all"]' not in said
    assert '["self"]' not in said
    assert "weights also in" not in said


def test_any_name_takes_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 60_000
    state = {"a\nb.weight": torch.ones(2), f"{long}.weight": torch.ones(2), "c.w": torch.ones(2)}
    path = layouts.save(tmp_path, {"mo\ndel": state, "epo\nch": 3, long: {"y.w": torch.ones(3)}})
    good = layouts.save(tmp_path, {"d.weight": torch.ones(4), "a.weight": torch.ones(2)}, "good.pt")
    for first, second in ((path, good), (good, path)):
        main([str(first), "--like", str(second)])
        said = capsys.readouterr().out
        assert "a\\nb.weight" in said
        assert all(len(line) < 400 for line in said.splitlines())
        assert not any(line.startswith(("b.weight", "ch", "del")) for line in said.splitlines())
    main([str(path)])
    assert 'ckpt["mo\\ndel"]' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "an empty dict"),
        (None, "None"),
        ("text", "one value of the type string"),
        (torch.ones(2, 3), "one tensor without a name, float32 [2, 3]"),
    ],
)
def test_a_readable_file_without_weights_is_called_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, words: str
) -> None:
    assert main([str(layouts.save(tmp_path, content))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"weights none: the file is readable, but all it holds is {words} For a resume" in said
