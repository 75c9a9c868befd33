"""One process: what the audit says of plain torch objects, and that it changes none of them."""

import argparse
import copy
import json
import os
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from loadwrap.checkpoints import AuditReport, audit_resume
from loadwrap.checkpoints.audit.audit import AuditError
from loadwrap.checkpoints.audit.findings import CHECKS
from loadwrap.checkpoints.audit.record import take_record


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 5)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 2)
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.head(self.norm(self.stem(x)))


def trained(steps=3):
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, 20)
    for _ in range(steps):
        net(torch.randn(8, 3)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return net, optimizer, scheduler


def audit(*arguments, **options):
    return audit_resume(*arguments, show=False, **options)


def test_the_checks_come_in_the_order_that_finds_faults():
    report = audit({"model": Net().state_dict()}, model=Net())
    assert isinstance(report, AuditReport)
    assert tuple(check for check, _, _ in report.rows) == CHECKS
    assert [check.split()[0] for check in CHECKS] == [
        "next", "tensors", "position", "spread", "optimizer", "EMA", "buffers", "scaler",
        "which", "RNG",
    ]  # fmt: skip


def test_what_the_file_does_not_record_is_never_ok():
    net, optimizer, scheduler = trained()
    scaler = torch.amp.GradScaler("cpu")
    report = audit(
        {"model": net.state_dict()},
        model=net,
        optimizer=optimizer,
        scheduler=scheduler,
        scaler=scaler,
        ema={"stem.weight": torch.zeros(5, 3)},
    )
    for check in ("next learning rates", "optimizer state", "EMA", "scaler", "RNG per rank"):
        assert report.verdict(check) == "not recorded", check
    assert report.first_fault is None
    assert str(report).endswith("which file, RNG per rank")
    assert "not known: next learning rates" in str(report)


def test_a_file_without_weights_or_with_foreign_ones_is_never_fine():
    assert audit({"epoch": 3}, model=Net()).verdict("tensors loaded") == "not recorded"
    report = audit({"model": {"something": torch.zeros(3)}}, model=Net())
    assert report.first_fault == "F04 tensors not loaded"


NAMES = [name for name, _ in Net().named_parameters()]


@settings(max_examples=100, deadline=None)
@given(
    left=st.sets(st.sampled_from(NAMES)),
    prefix=st.sampled_from(["", "module.", "_orig_mod.module.", "net.", "model.backbone."]),
    container=st.sampled_from([None, "model", "state_dict"]),
)
def test_a_tensor_left_at_its_initial_value_is_always_found(left, prefix, container):
    saved, live = Net(), Net()
    live.load_state_dict({
        name: live.state_dict()[name] if name in left else value
        for name, value in saved.state_dict().items()
    })  # fmt: skip
    weights = {prefix + name: value for name, value in saved.state_dict().items()}
    report = audit({container: weights} if container else weights, model=live)
    # Batch norm begins with ones and zeros on either side: those are the file's as well.
    unlike = {name for name in left if not name.startswith("norm.")}
    assert (report.first_fault is not None) == bool(unlike), str(report)
    assert (report.verdict("tensors loaded") == "fault") == bool(unlike)


@pytest.mark.parametrize("value", [float("nan"), -0.0, float("inf"), 1e-45])
def test_bits_count(value):
    net = Net()
    saved = copy.deepcopy(net.state_dict())
    net.stem.bias.data[1] = saved["stem.bias"][1] = value
    assert audit({"model": saved}, model=net).verdict("tensors loaded") == "ok"
    net.stem.bias.data[1] = 0.0
    assert audit({"model": saved}, model=net).verdict("tensors loaded") == "fault"


def test_ignore_takes_tensors_and_checks():
    net, optimizer, scheduler = trained()
    saved = {"model": copy.deepcopy(net.state_dict()), "optimizer": optimizer.state_dict()}
    net.head = nn.Linear(5, 2)
    everything = {"model": net, "optimizer": optimizer, "scheduler": scheduler}
    assert audit(saved, **everything).first_fault == "F04 tensors not loaded"
    report = audit(saved, **everything, ignore=["head.*", "optimizer*"])
    assert report.first_fault is None
    assert report.verdict("optimizer state") == "ignored"
    assert "2 ignored" in report.words("tensors loaded")


def test_a_rate_put_back_by_the_optimizer_is_named():
    """A9: asked for 0.05, it runs at the saved rate."""
    net, optimizer, scheduler = trained()
    saved = {"model": net.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    saved["scheduler"] = scheduler.state_dict()
    other = torch.optim.AdamW(net.parameters(), lr=0.05)
    schedule = CosineAnnealingLR(other, 20)
    other.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["scheduler"])
    objects = {"model": net, "optimizer": other, "scheduler": schedule}
    report = audit(saved, **objects, asked_lr=0.05)
    assert report.first_fault == "F07 learning rate"
    assert "asked for 0.05, runs at 0.09455" in report.words("next learning rates")
    assert "put the saved rate back" in report.words("next learning rates")
    # Nobody said that another rate was asked for: what stands out is said, and is no fault.
    report = audit(saved, **objects)
    assert report.first_fault is None and report.verdict("next learning rates") == "look"
    assert "asked_lr=0.05" in report.words("next learning rates")


def test_a_plateau_cannot_be_run_ahead_and_its_rate_is_compared():
    net, optimizer, _ = trained()
    scheduler = ReduceLROnPlateau(optimizer, patience=0)
    saved = {"model": net.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    saved["scheduler"] = copy.deepcopy(scheduler.state_dict())
    objects = {"model": net, "optimizer": optimizer, "scheduler": scheduler}
    assert audit(saved, **objects).verdict("next learning rates") == "ok"
    for group in optimizer.param_groups:
        group["lr"] *= 0.1
    assert audit(saved, **objects).first_fault == "F07 learning rate"


def test_an_object_of_unknown_make_is_not_checked_and_not_fine():
    class Scaler:
        def state_dict(self):
            raise OSError("no such device")

    net = Net()
    report = audit({"model": net.state_dict()}, model=net, scaler=Scaler())
    assert report.verdict("scaler") == "not checked"
    assert "no such device" in report.words("scaler")
    assert "scaler" in str(report).splitlines()[-1]


def test_a_schedule_that_cannot_be_copied_leaves_its_current_rate():
    class Stubborn(CosineAnnealingLR):
        def __deepcopy__(self, memo):
            raise TypeError("holds a lock")

    net, optimizer, _ = trained()
    saved = {"model": net.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    saved["scheduler"] = Stubborn(optimizer, 20).state_dict()
    saved["epoch"] = 0
    report = audit(saved, model=net, optimizer=optimizer, scheduler=Stubborn(optimizer, 20))
    assert report.verdict("next learning rates") in ("not recorded", "look")


def test_no_pickle_is_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/executed",)

    net = Net()
    saved = {"model": net.state_dict(), "args": argparse.Namespace(lr=1), "bomb": Bomb()}
    for name, zipped in (("new.pt", True), ("old.pt", False)):
        torch.save(saved, tmp_path / name, _use_new_zipfile_serialization=zipped)
        report = audit(tmp_path / name, model=net)
        assert report.verdict("tensors loaded") == "ok", str(report)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "content", [b"", b"not a checkpoint", pickle.dumps([1, 2]), b"PK\x03\x04" + bytes(200)]
)
def test_a_bad_file_is_one_sentence(tmp_path, content):
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(AuditError, match=r"bad\.pt") as failed:
        audit(tmp_path / "bad.pt", model=Net())
    assert "\n" not in str(failed.value)


def test_other_bad_arguments_are_one_sentence(tmp_path):
    for bad in (3, None, [Net()]):
        with pytest.raises(AuditError, match="give its path"):
            audit(bad, model=Net())
    with pytest.raises(AuditError, match="no such file"):
        audit(tmp_path / "none.pt", model=Net())
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(AuditError, match="holds a list"):
        audit(tmp_path / "list.pt", model=Net())


def test_a_record_is_plain_and_taking_it_changes_nothing():
    net, optimizer, scheduler = trained()
    before = str((optimizer.state_dict(), scheduler.state_dict(), torch.get_rng_state().tolist()))
    record = take_record(model=net, optimizer=optimizer, scheduler=scheduler, step=3, epoch=1)
    assert json.loads(json.dumps(record)) == record
    assert before == str((
        optimizer.state_dict(), scheduler.state_dict(), torch.get_rng_state().tolist()
    ))  # fmt: skip
    assert record["optimizer"]["names"] == NAMES
    assert record["learning_rates"][0] == [optimizer.param_groups[0]["lr"]]
    assert len(record["learning_rates"]) == 3
    assert "scratch" not in record["tensors"] and record["tensors"]["norm.running_var"]["buffer"]


def test_the_table_is_printed_once_and_ends_with_the_first_fault(capsys):
    net = Net()
    audit_resume({"model": net.state_dict()}, model=Net())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHECKS) + 2
    assert lines[-1].startswith("first fault: F04 tensors not loaded, in tensors loaded: 2 of 6")
    net.eval()
    audit_resume({"model": net.state_dict()}, model=net)
    assert "note: the model is in eval mode" in capsys.readouterr().out


def test_names_of_numbers_in_files_decide_only_where_they_count(tmp_path):
    net = Net()
    for name in ("resnet18.pt", "resnet50.pt", "fold1.pt", "fold2.pt", "step_9.pt", "step_10.pt"):
        torch.save({"model": net.state_dict()}, tmp_path / name)
    for name in ("resnet18.pt", "fold1.pt", "step_10.pt"):
        assert audit(tmp_path / name, model=net).first_fault is None
    report = audit(tmp_path / "step_9.pt", model=net)
    assert report.first_fault == "F15 stale or damaged file"
    assert "step_10.pt" in report.words("which file")


def test_weights_put_in_order_by_their_writer_tell_nothing_of_the_optimizer():
    net, optimizer, _ = trained()
    weights = dict(sorted(copy.deepcopy(net.state_dict()).items()))
    saved = {"model": weights, "optimizer": copy.deepcopy(optimizer.state_dict())}
    assert audit(saved, model=net, optimizer=optimizer).first_fault is None


def test_of_several_generators_the_default_one_is_compared():
    net, state = Net(), torch.get_rng_state()
    other = torch.Generator().manual_seed(9).get_state()
    for saved in (
        {"torch_rng_state": state, "loader_rng_state": other},
        {"rng": {"loader": other, "torch": state}},
        {"rng": {"0": {"torch": state}}},
        {"rng_state_0": state},
        {"extra": {"rng": [state]}},
    ):
        report = audit({"model": net.state_dict(), **saved}, model=net)
        assert report.verdict("RNG per rank") == "ok", str(report)
    report = audit({"model": net.state_dict(), "a_rng": other, "b_rng": state}, model=net)
    assert report.verdict("RNG per rank") == "not recorded"
    report = audit({"model": net.state_dict(), "rng_state": other}, model=net)
    assert report.first_fault == "F10 data order"


def test_a_loop_that_sets_the_epoch_later_says_which():
    net = Net()
    data = torch.utils.data.TensorDataset(torch.zeros(12))
    sampler = torch.utils.data.DistributedSampler(data, num_replicas=1, rank=0)
    saved = {"model": net.state_dict(), "epoch": 3}
    assert audit(saved, model=net, sampler=sampler).first_fault == "F10 data order"
    report = audit(saved, model=net, sampler=sampler, epoch=4)
    assert report.first_fault is None and report.verdict("position in the data") == "look"
    assert "set_epoch(4)" in report.words("position in the data")
    sampler.set_epoch(4)
    assert audit(saved, model=net, sampler=sampler).verdict("position in the data") == "ok"
    sampler.set_epoch(5)
    assert audit(saved, model=net, sampler=sampler).verdict("position in the data") == "fault"


def test_an_optimizer_of_a_loss_with_weights_of_its_own_is_no_stranger():
    net, loss = Net(), nn.Linear(5, 2)
    net.head.requires_grad_(False)
    optimizer = torch.optim.SGD([*net.stem.parameters(), *loss.parameters()], lr=0.1)
    saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    assert audit(saved, model=net, optimizer=optimizer).first_fault is None
    stale = torch.optim.SGD(Net().parameters(), lr=0.1)
    report = audit({**saved, "optimizer": stale.state_dict()}, model=Net(), optimizer=stale,
                   ignore="tensors*")  # fmt: skip
    assert report.first_fault == "F12 DDP bypassed"


def test_of_two_faults_the_first_in_the_order_is_named_and_the_other_is_in_the_table():
    net, optimizer, scheduler = trained()
    saved = {"model": copy.deepcopy(net.state_dict()), "scheduler": scheduler.state_dict()}
    saved["optimizer"] = copy.deepcopy(optimizer.state_dict())
    net.norm.reset_running_stats()
    fresh = torch.optim.AdamW(net.parameters(), lr=0.1)
    report = audit(saved, model=net, optimizer=fresh, scheduler=CosineAnnealingLR(fresh, 20))
    assert list(report.codes.values()) == [
        "F07 learning rate",
        "F06 optimizer state",
        "F13 buffers",
    ]
    assert report.first_fault == "F07 learning rate"


@pytest.mark.parametrize(
    "tree",
    [{}, {"model": None}, {1: torch.ones(2)}, {"other": {2: torch.ones(2)}}, nn.Linear(2, 2)],
)
def test_a_file_with_nothing_to_compare_is_never_without_fault(tmp_path, tree):
    torch.save(tree, tmp_path / "a.pt")
    net, optimizer, scheduler = trained()
    for parts in ({}, {"optimizer": optimizer, "scheduler": scheduler}):
        report = audit(tmp_path / "a.pt", model=net, **parts)
        assert report.first_fault is None
        last = str(report).splitlines()[-1]
        assert last.startswith("nothing could be checked: not recorded, so not known: ")
        assert "no fault" not in repr(report)
