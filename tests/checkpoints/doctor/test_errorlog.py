"""Names of both sides, out of a log alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from checkpoints.doctor import layouts
from loadwrap.checkpoints.doctoring.errorlog import read_errors
from loadwrap.checkpoints.doctoring.logfile import read_log
from loadwrap.checkpoints.doctoring.othererrors import other_errors
from loadwrap.doctor import main


def raised(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> str:
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    return f"Traceback (most recent call last):\nRuntimeError: {caught.value}"


def test_both_sides_are_rebuilt_from_what_torch_prints() -> None:
    net = layouts.Net()
    state = layouts.under("module.", net.state_dict())
    error = read_errors(raised(net, state))[0]
    assert error.model == "Net"
    # torch leaves out num_batches_tracked of a file without versions
    assert {*error.missing} <= {*net.state_dict()}
    assert error.unexpected == list(state)
    assert not error.cut


def test_shapes_are_read() -> None:
    state = layouts.Net(classes=7).state_dict()
    error = read_errors(raised(layouts.Net(), state))[0]
    assert error.shapes == {"fc.weight": ((7, 4), (5, 4)), "fc.bias": ((7,), (5,))}


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:", "[rank{}]:"])
def test_ranks_that_say_the_same_are_one(prefix: str) -> None:
    text = raised(layouts.Net(), layouts.under("module.", layouts.Net().state_dict()))
    lines = [
        prefix.format(rank) + line for line in text.splitlines() for rank in (0, 1, 3)
    ]  # interleaved, as three ranks print
    errors = read_errors("\n".join(lines))
    assert len(errors) == 1
    assert errors[0].ranks == {0, 1, 3}
    assert len(errors[0].unexpected) == 16


def test_several_models_are_told_apart() -> None:
    first = raised(layouts.Net(), layouts.under("module.", layouts.Net().state_dict()))
    second = raised(layouts.Language(), {"model." + k: v for k, v in
                                         layouts.Language().state_dict().items()})  # fmt: skip
    errors = read_errors(f"epoch 1\n{first}\nretrying\n{second}\n{first}")
    assert [error.model for error in errors] == ["Net", "Language"]


@pytest.mark.parametrize(
    "text",
    [
        'Missing key(s) in state_dict: "a.weight", "b.weight", ...',
        'Missing key(s) in state_dict: "a.weight", "b.weight", "c.we',
        'Missing key(s) in state_dict: "a.weight", "b.weight", … ',
    ],
)
def test_a_cut_list_is_said_to_be_cut(text: str) -> None:
    error = read_errors(f"RuntimeError: Error(s) in loading state_dict for Net:\n\t{text}")[0]
    assert error.missing == ["a.weight", "b.weight"]
    assert error.cut


def test_what_load_state_dict_returns_and_loaders_log() -> None:
    net = layouts.Net()
    told = net.load_state_dict(layouts.under("module.", net.state_dict()), strict=False)
    error = read_errors(f"loaded: {told}")[0]
    assert error.silent
    assert len(error.missing) == 14  # no versions in the file: two counters are not asked for
    assert len(error.unexpected) == 16
    mm = (
        "unexpected key in source state_dict: head.weight, head.bias\n\n"
        "missing keys in source state_dict: fc.weight, fc.bias\n"
    )
    error = read_errors(mm)[0]
    assert (error.missing, error.unexpected) == (
        ["fc.weight", "fc.bias"],
        ["head.weight", "head.bias"],
    )
    hf = (
        "Some weights of the model checkpoint at bert were not used when initializing Bert: "
        "['cls.weight']\nSome weights of Bert were not initialized from the model checkpoint at "
        "bert and are newly initialized: ['pooler.weight']\n"
    )
    error = read_errors(hf)[0]
    assert (error.model, error.missing, error.unexpected) == (
        "Bert", ["pooler.weight"], ["cls.weight"],
    )  # fmt: skip


def test_colours_and_escapes_of_a_notebook() -> None:
    text = raised(layouts.Net(), layouts.under("module.", layouts.Net().state_dict()))
    escaped = text.replace("\n", "\\n").replace("\t", "\\t")
    assert len(read_errors(escaped)[0].unexpected) == 16
    coloured = text.replace("RuntimeError", "\x1b[31mRuntimeError\x1b[39m")
    assert read_errors(coloured)[0].model == "Net"


@pytest.mark.parametrize("wrap", ["module.", "_orig_mod.module."])
def test_the_command_says_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrap: str
) -> None:
    log = tmp_path / "slurm-1.out"
    log.write_text(raised(layouts.Net(), layouts.under(wrap, layouts.Net().state_dict())))
    assert main(["--error", str(log)]) == 1
    said = capsys.readouterr().out
    assert f'key.removeprefix("{wrap}")' in said


def test_a_log_without_a_load_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "ok.log"
    log.write_text("step 1 loss 0.5\n")
    assert main(["--error", str(log)]) == 2
    assert "holds no error of loading" in capsys.readouterr().err
    assert main(["--error", str(tmp_path / "none.log")]) == 2


def test_other_errors_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"x": Path("/a")}, path)
    messages = []
    for change in (lambda d: d, lambda d: d[: len(d) // 2], lambda d: b"", lambda d: b"<html>x"):
        bad = tmp_path / "bad.pt"
        bad.write_bytes(change(path.read_bytes()))
        with pytest.raises(Exception) as caught:
            torch.load(bad)
        messages.append(f"{type(caught.value).__name__}: {caught.value}")
    told = [other_errors(message) for message in messages]
    assert "the safe way" in told[0][0]
    assert "cut short" in told[1][0]
    assert "empty" in told[2][0]
    assert "no checkpoint" in told[3][0] or "weights_only" in told[3][0]
    net = layouts.Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(ValueError) as error:
        optimizer.load_state_dict(torch.optim.SGD([net.fc.weight], lr=0.1).state_dict())
    assert "other parameters" in other_errors(str(error.value))[0]


def test_a_pipe_is_refused_at_once_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero", "/dev/null"):
        assert main(["--error", path]) == 2
        assert capsys.readouterr().err == (
            f"{path} is no regular file: --error reads a file, or stdin as -.\n"
        )
    assert main(["--error", str(tmp_path)]) == 2
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def test_of_a_long_log_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + "ä".encode() * 300 + b"\nlast but one\nlast\n")
    assert read_log(str(log), 20) == ("last but one\nlast\n", True)
    assert read_log(str(log))[1] is False
    monkeypatch.setattr("sys.stdin", log.open())
    assert read_log("-", 20) == ("last but one\nlast\n", True)
    big = tmp_path / "big.log"
    with big.open("wb") as file:
        file.seek(5 << 30)  # sparse
        file.write(b"\n" + raised(layouts.Net(), {}).encode())
    assert main(["--error", str(big)]) == 1
    assert "missing" in capsys.readouterr().out
