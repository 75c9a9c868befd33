"""The command as people call it: answers, exit codes, JSON, and never a traceback."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import loadwrap
from checkpoints.doctor import layouts
from loadwrap.checkpoints import explain_keys
from loadwrap.checkpoints.doctoring.examination import how_to_load
from loadwrap.checkpoints.formats import open_checkpoint
from loadwrap.doctor import main

SOURCES = str(Path(loadwrap.__file__).parents[1])


def run(
    *arguments: str, cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loadwrap.doctor", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES, **environ},
        timeout=120,
    )


def like(tmp_path: Path, net: torch.nn.Module | None = None) -> str:
    return str(layouts.save(tmp_path, (net or layouts.Net()).state_dict(), "good.pt"))


# layout: exit code against the bare net, entry, what the cure removes
FITS: dict[str, tuple[int, str, str]] = {
    "imagenet": (1, "state_dict", "module."),
    "ddp_tutorial": (0, "MODEL_STATE", ""),
    "torchvision": (2, "model", ""),
    "timm": (1, "state_dict", "_orig_mod.module."),
    "nanogpt": (1, "model", "_orig_mod."),
    "lightning": (1, "state_dict", "net."),
    "mmengine": (0, "state_dict", ""),
    "detectron2": (0, "model", ""),
    "fairseq": (0, "model", ""),
    "yolo": (2, "model", ""),
    "moco": (1, "state_dict", "module.encoder_q."),
    "dino": (2, "teacher", "backbone."),
    "dinov2": (1, "model", ""),
    "simclr": (1, "state_dict", "backbone."),
    "byol": (1, "", "online_encoder.net."),
    "mae": (2, "model", ""),
    "clip": (2, "", ""),
    "whisper": (0, "model_state_dict", ""),
    "shards": (0, "", ""),
    "peft": (1, "", ""),
    "averaged": (1, "", "module."),
    "deepspeed": (0, "module", ""),
    "megatron": (0, "model.language_model.encoder", ""),
    "everything": (0, "model", ""),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("layout", FITS)
def test_every_layout_gets_its_remedy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    like(tmp_path)
    code, entry, prefix = FITS[layout]
    path = str(layouts.LAYOUTS[layout](tmp_path).relative_to(tmp_path))
    assert main([path, "--like", "good.pt", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["exit"] == code
    assert told["keys"]["container"] == entry
    assert told["keys"]["prefix"] == prefix
    if prefix:
        assert prefix in told["keys"]["fix"]
    assert main([path, "--like", "good.pt"]) == code
    said = capsys.readouterr().out
    assert "Traceback" not in said
    assert all(len(line) <= 100 for line in said.splitlines() if not line.startswith("  "))


@pytest.mark.parametrize("layout", ["timm", "imagenet", "lightning", "averaged", "simclr", "dino"])
def test_the_lines_it_prints_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str
) -> None:
    path = layouts.LAYOUTS[layout](tmp_path)
    main([str(path), "--like", like(tmp_path)])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    load = next(line for line in lines if line.startswith("load ")).removeprefix("load ").strip()
    where = next(line for line in lines if line.startswith("open ")).removeprefix("open ").strip()
    model = layouts.Net()
    names = {"torch": torch, "model": model}
    exec(f"{where}\n{load}", names)
    saved = torch.load(path, weights_only=False)
    saved = saved.get("state_dict") or saved.get("teacher") or saved
    _, _, prefix = FITS[layout]
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved[f"{prefix}{name}"])


@pytest.mark.parametrize("name", ["last.pt", 'the "best" one.pt', "größte.pt"])
def test_it_opens_a_file_as_explain_keys_does(name: str, tmp_path: Path) -> None:
    net = torch.nn.Linear(2, 1)
    torch.save({"model": net.state_dict(), "args": argparse.Namespace(lr=0.1)}, tmp_path / name)
    line = how_to_load(open_checkpoint(tmp_path / name))
    assert f"  open       {line}\n" in str(explain_keys(tmp_path / name, net))
    names = {"torch": torch}
    exec(line, names)
    assert names["ckpt"]["args"].lr == 0.1


def test_neither_opens_a_file_of_another_pickle_protocol(tmp_path: Path) -> None:
    net, path = torch.nn.Linear(2, 1), tmp_path / "four.pt"
    torch.save(net.state_dict(), path, pickle_protocol=4)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    assert "refused as the file is" in how_to_load(open_checkpoint(path))
    said = str(explain_keys(path, net))
    assert "  open " not in said and "torch.load refuses the pickle opcode FRAME in" in said


def test_a_model_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, helper\nprint('noise on stdout')\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.conv1 = torch.nn.Linear(helper.WIDTH, 2)\n"
        "        self.register_buffer('big', torch.empty(10**9, 40))\n"  # 160 GB: on meta alone
    )
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    state = {"module.conv1.weight": torch.ones(2, 3), "module.conv1.bias": torch.ones(2)}
    state["module.big"] = torch.ones(1).expand(10**9, 40)
    torch.save(state, tmp_path / "last.pt")
    done = run("last.pt", "--model", "train:Net", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert 'removeprefix("module.")' in done.stdout
    assert "noise" not in done.stdout


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nothing_here:Net", "There is no module nothing_here"),
        ("net:Absent", "has no Absent"),
        ("net:Needs", "needs arguments"),
        ("net:number", "gave a int, not an nn.Module"),
        ("net:fails", "cannot be built: ZeroDivisionError"),
        ("net.py:leaves", "ended its process"),
        ("absent.py:Net", "no file absent.py"),
        ("net", "not of the form MODULE:CALLABLE"),
        ("net:slow", "not built within 5 s"),
    ],
)
def test_a_model_that_cannot_be_built_is_one_sentence(
    tmp_path: Path, spec: str, words: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "net.py").write_text(
        "import sys, time\n"
        "class Needs:\n    def __init__(self, width): pass\n"
        "def number(): return 3\n"
        "def fails(): return 1 / 0\n"
        "def leaves(): sys.exit(3)\n"
        "def slow(): time.sleep(60)\n"
    )
    torch.save({"a.weight": torch.ones(1)}, tmp_path / "last.pt")
    monkeypatch.chdir(tmp_path)
    timeout = "5" if spec == "net:slow" else "100"
    assert main(["last.pt", "--model", spec, "--timeout", timeout]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_constructor_that_looks_at_numbers_is_built_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        n = int(torch.linspace(0, 2, 3).sum().item())\n"
        "        self.a = torch.nn.Linear(n, 1)\n"
    )
    torch.save(torch.nn.Linear(3, 1).state_dict(), tmp_path / "last.pt")
    monkeypatch.chdir(tmp_path)
    main(["last.pt", "--model", "net:Net"])
    assert "built on the CPU" in capsys.readouterr().out


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "cut.pt"
    whole = layouts.imagenet(tmp_path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    done = run("cut.pt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cut.pt is cut: it has")
    assert done.stderr.count("\n") == 1
    told = json.loads(run("cut.pt", "--json", cwd=tmp_path).stdout)
    assert (told["exit"], told["reason"]) == (2, "cut")


CONTENTS = {
    "a module": layouts.Net(),
    "a list": [torch.ones(2)],
    "a tensor": torch.ones(3),
    "a number": 5,
    "nothing": {},
    "no weights": {"epoch": 3, "optimizer": {"state": {}, "param_groups": []}},
    "deep": {"a": {"b": {"c": {"d": {"e": {"f": {"weight": torch.ones(2)}}}}}}},
    "numbers as names": {1: torch.ones(2), (2, 3): torch.ones(2)},
}


@pytest.mark.parametrize("content", CONTENTS)
def test_files_of_any_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = str(layouts.save(tmp_path, CONTENTS[content]))
    out = str(tmp_path / "out.pt")
    for arguments in ([], ["--json"], ["--like", like(tmp_path)], ["--deep"],
                      ["--like", like(tmp_path), "--fix", out]):  # fmt: skip
        assert main([path, *arguments]) in (0, 1, 2)
    said = capsys.readouterr().out
    if content == "a module":
        assert "model.load_state_dict(ckpt.state_dict())" in said
        assert torch.load(out).keys() == layouts.Net().state_dict().keys()
    else:
        assert not Path(out).exists()
    assert main([like(tmp_path), "--like", path]) == (0 if content == "a module" else 2)


def test_an_attack_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "was_here"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.system, (f"touch {target}",))

    path = layouts.save(tmp_path, {"model": layouts.Net().state_dict(), "x": Bomb()})
    out = str(tmp_path / "out.pt")
    for arguments in ([], ["--deep"], ["--json"], ["--like", like(tmp_path), "--fix", out]):
        assert main([str(path), *arguments]) == 2
    assert not target.exists()
    said = " ".join(capsys.readouterr().out.split())
    assert "NOT SAFE" in said
    assert 'posix.system (ckpt["x"])' in said


def test_names_from_the_file_cannot_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layouts.save(tmp_path, {"model": {"a\x1b[2Jb.weight\r": torch.ones(2)}, "\x07": 1})
    main([str(path)])
    assert not {"\x1b", "\r", "\x07"} & set(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [[], ["a.pt", "--error", "b"], ["a.pt", "--fix", "o.pt"], ["a.pt", "--force"],
     ["a.pt", "--model", "m:n", "--like", "b.pt"], ["a.pt", "--mod", "m:n"],
     ["a.pt", "--timeout", "nan"]],
)  # fmt: skip
def test_options_that_make_no_sense(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_the_command_needs_no_torch_and_no_file_of_ours(tmp_path: Path) -> None:
    code = (
        "import sys; from loadwrap.doctor import main; code = main([sys.argv[1]]);"
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules); sys.exit(code)"
    )
    path = layouts.imagenet(tmp_path)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_has_examples_and_exit_codes() -> None:
    said = run("--help").stdout
    assert "loadwrap doctor last.pt --model train:Net" in said
    assert "exit codes:" in said


def test_the_console_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                            capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    from loadwrap.doctor import command

    path = layouts.everything(tmp_path)
    monkeypatch.setattr(sys, "argv", ["loadwrap", "doctor", str(path)])
    assert command() == 0
    assert "AdamW" in capsys.readouterr().out
    for arguments, code in ((["--help"], 0), ([], 0), (["--version"], 0), (["cure"], 2)):
        monkeypatch.setattr(sys, "argv", ["loadwrap", *arguments])
        assert command() == code


def test_an_answer_that_nobody_reads_to_the_end(tmp_path: Path) -> None:
    path = layouts.everything(tmp_path)
    command = f"{sys.executable} -m loadwrap.doctor {path} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
