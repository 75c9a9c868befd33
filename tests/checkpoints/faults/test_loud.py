"""The faults that raise, or that no state shows: the tool that names each.

Of these families a CPU cannot show all: where a load puts memory on GPUs (F17) is seen only as
the devices in a file; SyncBatchNorm (F13) runs on GPUs alone; curves that flood a browser (F22)
are tested with the figure.
"""

import argparse
import io
import os
import re
import signal
import zipfile
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch
from torch import nn
from torch.nn.parallel import DataParallel

from loadwrap import JobFailed, JobStalled, torchrun
from loadwrap.checkpoints import audit_resume, explain_keys
from loadwrap.checkpoints.audit.audit import AuditError
from loadwrap.doctor import main as doctor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.module, self.base_module, self.head = (nn.Linear(4, 4) for _ in range(3))


@pytest.fixture
def launch(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)

    def launching(body, **options):
        text = "import os, torch, torch.distributed as dist\nfrom torch import nn\n"
        text += "from torch.nn.parallel import DistributedDataParallel\n"
        text += 'def work():\n    dist.init_process_group("gloo")\n    rank = dist.get_rank()\n'
        text += "".join(f"    {line}\n" for line in body)
        text += "work()\ndist.barrier()\ndist.destroy_process_group()\n"
        (tmp_path / "script.py").write_text(text)
        options = {"nproc_per_node": 2, "runs": tmp_path / "runs", **options}
        return torchrun("script.py", live=False, **options).wait()

    return launching


@pytest.fixture
def asked(tmp_path):
    """What the doctor says of an object that torch.save wrote, and its exit code."""

    def asking(thing, *options, damage=None):
        file = tmp_path / "file.pt"
        torch.save(thing, file)
        if damage is not None:
            damage(file)
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = doctor([str(file), *options])
        return code, said.getvalue()

    return asking


def error_of(model, weights):
    with pytest.raises(RuntimeError) as failed:
        model.load_state_dict(weights)
    return f"Traceback (most recent call last):\nRuntimeError: {failed.value}\n"


def test_f01_a_strict_load_that_failed_is_explained_from_its_error_alone(tmp_path, capsys):
    model = nn.Linear(2, 2)
    log = tmp_path / "error.txt"
    log.write_text(error_of(model, DataParallel(nn.Linear(2, 2)).state_dict()))
    assert doctor(["--error", str(log)]) == 1
    assert "module." in capsys.readouterr().out


def test_f01_f02_f03_the_keys_are_explained_and_the_fix_destroys_nothing():
    model = Net()
    wrapped = DataParallel(Net()).state_dict()
    assert explain_keys(wrapped, model).checkpoint_wrappers == ("module",)
    nested = {f"_orig_mod.module.{name}": value for name, value in Net().state_dict().items()}
    report = explain_keys(nested, model)
    assert report.checkpoint_wrappers == ("_orig_mod", "module")
    for weights in (wrapped, nested, Net().state_dict()):
        renamed = explain_keys(weights, model).rename(weights)
        model.load_state_dict(renamed)
    destroyed = {name.replace("module.", ""): v for name, v in wrapped.items()}
    report = explain_keys(destroyed, model)
    assert not report.matches and "base_module.weight" in str(report)


def test_f04_nothing_matches_is_said_loudly():
    report = explain_keys({"encoder.layers": torch.zeros(7)}, Net())
    assert report.verdict == "nothing" and report.after[0] == 0


def test_f05_the_container_is_named(asked):
    code, said = asked({"epoch": 3, "model_state_dict": Net().state_dict()})
    assert code == 0 and "model_state_dict" in said


def test_f14_two_writers_of_one_path_are_caught(tmp_path):
    """What two ranks leave that save dicts of different sizes to one path: one's end is gone."""
    torch.save({"model": Net().state_dict(), "rank": 0}, tmp_path / "a.pt")
    torch.save({"model": nn.Linear(99, 99).state_dict(), "rank": 1}, tmp_path / "b.pt")
    small, large = (tmp_path / "a.pt").read_bytes(), (tmp_path / "b.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(small[: len(small) // 2] + large[len(small) // 2 :])
    with pytest.raises(AuditError, match=r"a\.pt"):
        audit_resume(tmp_path / "a.pt", model=Net(), show=False)
    assert doctor([str(tmp_path / "a.pt")]) == 2


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.99])
def test_f15_a_torn_file_is_called_torn(asked, share):
    def tear(file):
        os.truncate(file, int(file.stat().st_size * share))

    code, said = asked({"model": Net().state_dict()}, damage=tear)
    assert code == 2
    assert re.search("empty" if not share else "cut|torn|incomplete|not whole|ends", said)


def test_f15_a_zeroed_record_is_named_by_the_deep_look(asked):
    def zero(file):
        with zipfile.ZipFile(file) as archive:
            record = max(archive.infolist(), key=lambda info: info.file_size)
        with open(file, "r+b") as opened:
            opened.seek(record.header_offset + 512)
            opened.write(bytes(2048))

    weights = {"weight": torch.randn(64, 64)}
    assert asked(weights)[0] == 0
    code, said = asked(weights, "--deep", damage=zero)
    assert code == 2 and "data/" in said


def test_f16_a_barrier_of_one_rank_is_a_stall_with_the_places(launch):
    with pytest.raises(JobStalled) as stalled:
        launch(["if rank == 0:", "    dist.barrier()", "x = torch.ones(1)",
                "dist.all_reduce(x)", "dist.all_reduce(x)", "dist.barrier()"],
               stall_timeout=6)  # fmt: skip
    assert "rank 0" in str(stalled.value) and "script.py" in str(stalled.value)


def test_f17_the_devices_in_a_file_are_named(asked):
    code, said = asked({"model": {"weight": torch.zeros(4, 4)}})
    assert code == 0 and "cpu" in said


def test_f18_a_refused_object_is_named_with_its_place(asked):
    code, said = asked({"args": argparse.Namespace(lr=1), "model": Net().state_dict()})
    assert code == 2
    assert "Namespace" in said and "args" in said


def test_f19_a_sharded_optimizer_that_was_not_consolidated_fails_with_its_reason(launch):
    with pytest.raises(JobFailed, match="consolidate"):
        launch([
            "from torch.distributed.optim import ZeroRedundancyOptimizer as Zero",
            "net = nn.Linear(2, 2)",
            "optimizer = Zero(net.parameters(), torch.optim.AdamW, lr=0.1)",
            "optimizer.state_dict()",
        ])  # fmt: skip


def test_f20_a_method_that_is_gone_is_named(launch):
    with pytest.raises(JobFailed) as failed:
        launch(["net = nn.Linear(2, 2)", "net.loss = lambda x: x.sum()",
                "DistributedDataParallel(net).loss(torch.ones(2))"])  # fmt: skip
    assert "no attribute 'loss'" in failed.value.traceback


def test_f20_a_parameter_frozen_after_the_wrapping_is_named_before_it_raises(ranks):
    said = ranks("""
        from loadwrap.checkpoints import audit_resume
        net = nn.Linear(2, 2)
        ddp = DistributedDataParallel(net)
        net.bias.requires_grad_(False)
        report = audit_resume({"model": net.state_dict()}, model=ddp, show=False)
        say(fault=report.first_fault)
    """)
    assert [facts["fault"] for facts in said] == ["F20 DDP contract"] * 2


def test_f21_a_killed_rank_is_named_and_nothing_is_left(launch, tmp_path):
    with pytest.raises(JobFailed) as failed:
        launch(["print('pid', os.getpid(), flush=True)", "dist.barrier()",
                "if rank == 1:", f"    os.kill(os.getpid(), {int(signal.SIGKILL)})",
                "dist.barrier()"])  # fmt: skip
    assert (failed.value.rank, failed.value.exitcode) == (1, -signal.SIGKILL)
    logs = (tmp_path / "runs").rglob("stdout.log")
    pids = {int(pid) for log in logs for pid in re.findall(r"pid (\d+)", log.read_text())}
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_f22_the_loss_of_one_rank_is_told_from_the_mean(launch):
    run = launch([
        "from loadwrap import log",
        "for step in range(200):",
        "    log(step, loss=0.5 if rank == 0 else 2.5)",
        "    print('x' * 500)",
    ])  # fmt: skip
    assert set(run.curve("loss")) == {0, 1}
    assert all(len(steps) == 200 for steps, _ in run.curve("loss").values())
    assert run.curve("loss")[0][1][-1] == 0.5 and run.mean("loss")[1][-1] == 1.5
