"""The parts of train.py and orders.py that need no job: data, devices, arguments; and its exit."""

import ast
import inspect
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from loadwrap import JobFailed, Run, torchrun

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


def seen(script, start: int, stop: int) -> list[tuple[int, list[int]]]:
    data = TensorDataset(torch.arange(23))
    sampler = DistributedSampler(data, num_replicas=2, rank=1)
    loader = DataLoader(data, batch_size=3, sampler=sampler, drop_last=True)
    return [
        (step, batch[0].tolist()) for step, batch in script.batches(loader, sampler, start, stop)
    ]


@pytest.mark.parametrize("start", [1, 3, 4, 5, 9])
def test_a_resumed_run_sees_the_batches_that_were_left(script, start: int) -> None:
    assert seen(script, start, 13) == seen(script, 0, 13)[start:]


def test_every_epoch_has_an_order_of_its_own(script) -> None:
    batches = dict(seen(script, 0, 12))
    assert batches[0] != batches[4] != batches[8]


def test_the_images_are_split_once(script) -> None:
    train, test = script.digits(train=True), script.digits(train=False)
    assert (len(train), len(test)) == (1437, 360)
    images, labels = train.tensors
    assert images.shape == (1437, 1, 8, 8) and 0 <= images.min() and images.max() == 1
    assert sorted(labels.unique().tolist()) == list(range(10))


@pytest.mark.parametrize(
    ("gpus", "ranks", "backend", "devices"),
    [
        (0, 2, "gloo", ["cpu", "cpu"]),
        (2, 2, "nccl", ["cuda:0", "cuda:1"]),
        (4, 2, "nccl", ["cuda:0", "cuda:1"]),
        (1, 2, "gloo", ["cuda:0", "cuda:0"]),
        (2, 3, "gloo", ["cuda:0", "cuda:1", "cuda:0"]),
    ],
)
def test_the_device_follows_the_gpus(script, monkeypatch, gpus, ranks, backend, devices) -> None:
    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    for rank in range(ranks):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        chosen.append(script.choose_device())
    assert chosen == [(backend, torch.device(name)) for name in devices]


@pytest.mark.parametrize("name", ["constant", "cosine"])
def test_a_schedule_stays_between_0_and_1(script, name: str) -> None:
    factors = [script.SCHEDULES[name](step / 100) for step in range(101)]
    assert 0 <= min(factors) and max(factors) <= 1
    if name == "cosine":
        assert factors[0] == pytest.approx(0.1) and math.isclose(factors[-1], 0, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--order", "nope"), "no order 'nope': choose wrap_then_load_on_rank0"),
        (("--order", "there/is/none.py:resume"), "no order 'there/is/none.py:resume'"),
        (("--resume", "none.pt"), "--resume none.pt: no such file"),
        (("--save", "no/folder/a.pt"), "--save no/folder/a.pt: no such folder"),
        (("--save", "."), "--save .: this is a folder"),
        (("--resume", str(LAUNCH / "orders.py")), "orders.py: not a checkpoint of train.py"),
        (("--order", f"{LAUNCH.parent / 'LICENSE'}:x"), "LICENSE is not a Python file"),
        (("--steps", "0"), "--steps and --batch-size must be at least 1"),
        (("--dropout", "2"), "--dropout must be between 0 and 1"),
        (("--stepps", "3"), "unrecognized arguments: --stepps 3"),
        (("--schedule", "stairs"), "invalid choice: 'stairs'"),
    ],
)
def test_a_bad_argument_is_told_in_one_sentence(
    script, monkeypatch, capsys, arguments, says
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit) as end:
        script.parse_arguments()
    error = capsys.readouterr().err
    assert end.value.code == 2 and says in error
    assert len(error.strip().splitlines()) == 2  # how it is used, and what was wrong


def test_an_order_of_ones_own_is_found(script, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def resume(model, optimizer, scheduler, path):\n    return model\n")
    assert script.find_order(f"{mine}:resume")("the model", None, None, None) == "the model"
    with pytest.raises(ValueError, match="has no function 'resum'"):
        script.find_order(f"{mine}:resum")


def test_the_orders_show_their_load_and_their_wrap(script) -> None:
    """A lesson shows these functions: nothing of a load or a wrap may hide in another."""
    for order in script.ORDERS.values():
        source = inspect.getsource(order)
        assert "DistributedDataParallel(model)" in source and source.count("load_state_dict(") == 3
        assert len(source.splitlines()) <= 10


def test_ddp_is_gone_before_the_group_is(script) -> None:
    """If the last reference to DDP outlives its process group, a rank can hang for ever."""
    calls = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(inspect.getsource(script.main)))
        if isinstance(node, ast.Call)
    ]
    assert calls.index("train") < calls.index("dist.barrier")
    assert calls[-1] == "dist.destroy_process_group"
    assert not any("DistributedDataParallel" in call for call in calls)


def said(run: Run) -> str:
    with pytest.raises(JobFailed):
        run.wait()
    assert "Traceback" not in run.stderr(0)
    return run.stderr(0).strip()


def test_a_resume_without_a_step_of_its_own_is_no_checkpoint(script, tmp_path: Path) -> None:
    for saved in ({}, [], {"step": "soon"}, None):
        torch.save(saved, tmp_path / "a.pt")
        with pytest.raises(ValueError, match=r"a\.pt: not a checkpoint of train\.py"):
            script.step_of(tmp_path / "a.pt")
    torch.save({"step": 7}, tmp_path / "a.pt")
    assert script.step_of(tmp_path / "a.pt") == 7 and script.step_of(None) == 0


def test_what_only_the_training_can_know_is_a_sentence_too(tmp_path: Path) -> None:
    def job(*options) -> Run:
        more = {"nproc_per_node": 1, "live": False, "runs": tmp_path / "runs"}
        return torchrun(LAUNCH / "train.py", *options, **more)

    job("--steps", 2, "--lr", 0, "--save", "still.pt").wait()
    assert "a rank has 1437 images" in said(job("--batch-size", 5000))
    assert "still.pt was saved with --lr 0" in said(job("--resume", "still.pt"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name a file and its function, as in mine.py:train"),
        (("mine.py",), "name a file and its function"),
        (("mine.py:",), "name a file and its function"),
        (("none.py:train",), "none.py: no such file"),
        (("mine.py:trian",), "mine.py has no function 'trian'"),
    ],
)
def test_on_every_rank_wants_a_function(tmp_path: Path, arguments, says) -> None:
    (tmp_path / "mine.py").write_text("def train(device):\n    {}['lost']\n")
    call = [sys.executable, LAUNCH / "on_every_rank.py", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_error_of_the_function_itself_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def train(device):\n    {}['lost']\n")
    run = torchrun(
        LAUNCH / "on_every_rank.py", "mine.py:train",
        nproc_per_node=1, live=False, runs=tmp_path / "runs",
    )  # fmt: skip
    with pytest.raises(JobFailed, match="lost"):
        run.wait()
    assert "{}['lost']" in run.stderr(0) and "has no function" not in run.stderr(0)


AGAIN = """
import os
import sys

import torch.distributed as dist

sys.path.insert(0, sys.argv.pop())
import train
from loadwrap import log

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
data = {kind: train.digits(train=kind) for kind in (True, False)}
train.digits = lambda train: data[train]
args = train.parse_arguments()
backend, device = train.choose_device()
for teardown in range(200):
    own = dist.PrefixStore(str(teardown), store)  # keys of an earlier group would mislead it
    dist.init_process_group(backend, store=own, rank=rank, world_size=ranks)
    train.train(args, device)
    dist.barrier()
    dist.destroy_process_group()
    log(teardown, teardown=teardown)
"""


def test_200_teardowns(tmp_path: Path) -> None:
    """Two ranks train and leave 200 times; a rank that hung would hold up the job."""
    script = tmp_path / "again.py"
    script.write_text(AGAIN)
    options = ("--steps", 1, "--batch-size", 4, LAUNCH)
    run = torchrun(
        script, *options, nproc_per_node=2, live=False, runs=tmp_path / "runs", stall_timeout=60
    ).wait()
    assert all(len(steps) == 200 for steps, _ in run.curve("teardown").values())
