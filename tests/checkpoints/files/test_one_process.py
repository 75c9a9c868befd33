"""Saving and loading in one process: what is in the file, what comes back, what is said."""

import argparse
import json
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from loadwrap.checkpoints import fingerprint, load_checkpoint, save_checkpoint
from loadwrap.checkpoints.files.errors import CheckpointError, SaveFailed


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.module = nn.Linear(3, 2)

    def forward(self, x):
        return self.module(self.norm(self.body(x)))


class Everything:
    """A model and all that trains it."""

    def __init__(self, seed=0, lr=0.1, net=None):
        torch.manual_seed(seed)
        self.model = net or Net()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        warm = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.1, total_iters=5)
        rest = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)
        self.scheduler = torch.optim.lr_scheduler.SequentialLR(self.optimizer, [warm, rest], [5])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.ema = AveragedModel(self.model)
        self.sampler = torch.utils.data.DistributedSampler(range(20), 2, 0, seed=3)

    def parts(self):
        return dict(vars(self))

    def train(self, steps):
        for _ in range(steps):
            loss = self.model(torch.randn(8, 4)).square().mean()
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            self.ema.update_parameters(self.model)

    def bits(self):
        tensors = [*self.model.state_dict().values(), *self.ema.state_dict().values()]
        for state in self.optimizer.state.values():
            tensors += [state["exp_avg"], state["exp_avg_sq"], state["step"]]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [fingerprint(tensor) for tensor in tensors], rates, self.scaler.get_scale()


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_checkpoint(*arguments, **options)


def test_everything_comes_back_and_goes_on_as_if_nothing_had_happened(tmp_path):
    one = Everything()
    one.train(7)
    one.sampler.set_epoch(2)
    path = save_checkpoint(
        tmp_path / "a.pt", step=7, extra={"best": 0.5, "list": [1, torch.ones(2)]}, **one.parts()
    )
    assert path == tmp_path / "a.pt"
    one.train(3)
    after = torch.rand(1), random.random(), np.random.rand()

    other = Everything(seed=1)
    other.train(1)
    loaded = load_checkpoint(path, **other.parts())
    assert (loaded.step, loaded.epoch, loaded.missing, loaded.unused) == (7, 2, (), ())
    assert loaded.extra["best"] == 0.5 and loaded.extra["list"][1].tolist() == [1, 1]
    assert loaded.restored == ("model", "ema", "optimizer", "scheduler", "scaler", "sampler")
    assert other.sampler.epoch == 2
    assert not loaded.rng_restored
    torch.rand(3), random.random(), np.random.rand()  # as iter(loader) would
    loaded.restore_rng()
    assert loaded.rng_restored
    other.train(3)
    assert one.bits() == other.bits()
    assert (torch.rand(1), random.random(), np.random.rand()) == after


def test_the_file_and_its_manifest(tmp_path):
    one = Everything()
    one.train(1)
    path = save_checkpoint(tmp_path / "new" / "step-1.pt", step=1, epoch=4, **one.parts())
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "step-1.pt",
        "step-1.pt.manifest.json",
    ]
    tree = torch.load(path, weights_only=True)
    assert list(tree["model"]) == list(one.model.state_dict())
    assert tree["model"]._metadata == one.model.state_dict()._metadata
    assert (tree["step"], tree["epoch"], tree["world_size"]) == (1, 4, 1)
    manifest = json.loads((path.parent / "step-1.pt.manifest.json").read_text())
    assert manifest["size"] == path.stat().st_size and manifest["complete"]
    assert {"model", "optimizer", "scheduler", "scaler", "ema", "sampler", "rng"} <= {
        *manifest["parts"]
    }
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask():
    import os

    value = os.umask(0)
    os.umask(value)
    return value


def test_wrappers_come_off_in_any_order_and_in_the_middle(tmp_path):
    net = Net()
    wrapped = nn.DataParallel(torch.compile(nn.DataParallel(net)))
    path = save_checkpoint(tmp_path / "a.pt", step=1, model=wrapped, ema=AveragedModel(wrapped))
    tree = torch.load(path, weights_only=True)
    assert list(tree["model"]) == list(Net().state_dict())
    assert set(tree["ema"]) == {"n_averaged", *(f"module.{name}" for name in Net().state_dict())}

    inside = Net()
    inside.body = torch.compile(inside.body)
    loaded = quiet(path, model=nn.DataParallel(inside), ema=AveragedModel(inside))
    assert loaded.restored == ("model", "ema")
    assert torch.equal(inside.body._orig_mod.weight, net.body.weight)
    again = save_checkpoint(tmp_path / "b.pt", step=1, model=inside)
    assert list(torch.load(again, weights_only=True)["model"]) == list(tree["model"])


def test_what_the_file_lacks_and_what_nobody_asked_for_is_said(tmp_path):
    one = Everything()
    path = save_checkpoint(tmp_path / "a.pt", step=3, model=one.model, optimizer=one.optimizer)
    with pytest.warns(UserWarning) as said:
        loaded = load_checkpoint(path, model=one.model, scheduler=one.scheduler, ema=one.ema)
    assert loaded.missing == ("scheduler", "ema") and loaded.unused == ("optimizer",)
    text = " ".join(str(warning.message) for warning in said)
    assert "no scheduler, ema: they stay as they were built" in text
    assert "has optimizer, which nobody asked for" in text
    assert "NOT in the file: scheduler, ema" in str(loaded)
    with pytest.raises(CheckpointError, match="resumed exactly: the file has no scheduler"):
        load_checkpoint(path, model=one.model, scheduler=one.scheduler, exact=True)


def test_the_newest_complete_one_is_chosen_by_step(tmp_path):
    net = Net()
    for step in (960_000, 90, 1_080_000):
        nn.init.constant_(net.body.bias, step)
        save_checkpoint(tmp_path / f"iter-{step}.pt", step=step, model=net)
    assert quiet(tmp_path, model=Net()).step == 1_080_000

    newest = tmp_path / "iter-1080000.pt"
    whole = newest.read_bytes()
    for broken, words in (
        (whole[: len(whole) // 2], "is torn: it has"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "is damaged"),
        (whole[:800] + bytes(100) + whole[900:], "is damaged"),
        (b"", "is torn: it has 0 bytes"),
    ):
        newest.write_bytes(broken)
        with pytest.warns(
            UserWarning, match=f"passed over: iter-1080000.pt .step 1080000. {words}"
        ):
            loaded = load_checkpoint(tmp_path, model=net)
        assert loaded.step == 960_000 and net.body.bias[0] == 960_000
        assert "passed over" in str(loaded)
        with pytest.raises(CheckpointError, match=r"is (torn|damaged).*Complete is iter-960000.pt"):
            load_checkpoint(newest, model=net)
    newest.unlink()
    assert quiet(tmp_path, model=net).step == 960_000


def test_an_interrupt_between_the_renames_leaves_a_complete_file(tmp_path, monkeypatch):
    """A kill after each single rename, when one path is written again and again."""
    from loadwrap.checkpoints.files import manifest as module

    class Killed(BaseException):
        pass

    real = module.rename
    for when in range(4):
        folder = tmp_path / str(when)
        net = Net()
        for step in (1, 2):
            nn.init.constant_(net.body.bias, step)
            save_checkpoint(folder / "last.pt", step=step, model=net)
        nn.init.constant_(net.body.bias, 3)
        left = [when]

        def stopping(old, new, left=left):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            real(old, new)

        monkeypatch.setattr(module, "rename", stopping)
        if when < 3:
            with pytest.raises(Killed):
                save_checkpoint(folder / "last.pt", step=3, model=net)
        monkeypatch.setattr(module, "rename", real)
        other = Net()
        loaded = quiet(folder / "last.pt", model=other)
        assert loaded.step == other.body.bias[0] == (3 if when == 2 else 2)
        assert quiet(folder, model=other).step == loaded.step
        manifest = json.loads((folder / "last.pt.manifest.json").read_text())
        assert manifest["step"] == loaded.step


def test_keep_removes_older_complete_ones_of_the_same_run_alone(tmp_path):
    net = Net()
    save_checkpoint(tmp_path / "best.pt", step=1, model=net)
    save_checkpoint(tmp_path / "step-900.pt", step=900, model=net)  # of a run that was rolled back
    torch.save({"model": net.state_dict()}, tmp_path / "step-5.pt")  # somebody else's
    for step in (10, 20, 30, 40):
        save_checkpoint(tmp_path / f"step-{step}.pt", step=step, model=net, keep=2)
    assert sorted(p.name for p in tmp_path.glob("*.pt")) == [
        "best.pt",
        "step-30.pt",
        "step-40.pt",
        "step-5.pt",
        "step-900.pt",
    ]
    with pytest.raises(SaveFailed, match="keep is 1 or more"):
        save_checkpoint(tmp_path / "step-50.pt", step=50, model=net, keep=0)


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    import socket

    host = socket.gethostname().replace(".", "-")
    stale = tmp_path / f".step-1.pt.{host}.4194304.partial"
    others = tmp_path / ".step-1.pt.anotherhost.1.partial"
    mine = tmp_path / f".step-1.pt.{host}.1.partial"  # of a process that lives
    for path in (stale, others, mine):
        path.write_bytes(b"half")
    save_checkpoint(tmp_path / "step-2.pt", step=2, model=Net())
    assert not stale.exists() and others.exists() and mine.exists()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (argparse.Namespace(lr=1), r"extra\['x'\]\[0\] is a argparse.Namespace.*store vars"),
        (np.zeros(3), r"numpy.ndarray.*from_numpy"),
        (nn.Linear(1, 1), r"Linear.*store its state_dict"),
        (len, r"builtin_function"),
    ],
)
def test_what_could_not_be_read_back_is_refused_before_anything_is_written(tmp_path, value, words):
    with pytest.raises(SaveFailed, match=words):
        save_checkpoint(tmp_path / "a.pt", step=1, model=Net(), extra={"x": [value]})
    assert list(tmp_path.iterdir()) == []


def test_kin_of_plain_values_become_plain(tmp_path):
    from collections import defaultdict

    extra = {
        "path": Path("a/b"),
        "number": np.float32(0.5),
        "integer": np.int64(7),
        "dict": defaultdict(list, a=[1]),
        "version": torch.__version__,
        "set": {1, 2},
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "size": torch.zeros(2, 3).shape,
        3: None,
    }
    path = save_checkpoint(tmp_path / "a.pt", step=1, model=Net(), extra=extra)
    back = quiet(path, model=Net()).extra
    assert back["path"] == "a/b" and back["number"] == 0.5 and back["integer"] == 7
    assert back["dict"] == {"a": [1]} and back["set"] == {1, 2} and back["size"] == (2, 3)
    assert back["dtype"] is torch.float16 and 3 in back


def test_wrong_arguments_are_told_in_a_sentence(tmp_path):
    net = Net()
    with pytest.raises(SaveFailed, match="model must be a torch.nn.Module, not OrderedDict"):
        save_checkpoint(tmp_path / "a.pt", step=1, model=net.state_dict())
    with pytest.raises(SaveFailed, match="optimizer is a dict, which has no state_dict"):
        save_checkpoint(tmp_path / "a.pt", step=1, model=net, optimizer={})
    with pytest.raises(SaveFailed, match="meta device"):
        save_checkpoint(tmp_path / "a.pt", step=1, model=nn.Linear(1, 1, device="meta"))
    with pytest.raises(CheckpointError, match="there is no file or folder"):
        load_checkpoint(tmp_path / "none.pt", model=net)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        load_checkpoint(tmp_path / "empty", model=net)
    none = load_checkpoint(tmp_path / "empty", model=net, missing_ok=True)
    assert (none.step, none.path) == (0, None) and "nothing was restored" in str(none)
    none.restore_rng()


def test_weights_that_do_not_fit_are_refused_and_nothing_is_changed(tmp_path):
    one = Everything()
    one.train(1)
    path = save_checkpoint(tmp_path / "a.pt", step=1, **one.parts())
    for net in (nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))):
        before = [fingerprint(tensor) for tensor in net.state_dict().values()]
        with pytest.raises(CheckpointError):
            quiet(path, model=net)
        assert [fingerprint(tensor) for tensor in net.state_dict().values()] == before
    wide = Net()
    wide.module = nn.Linear(3, 7)
    with pytest.raises(CheckpointError, match=r"module.weight: \[2, 3\] in the file, \[7, 3\]"):
        quiet(path, model=wide)
    with pytest.raises(CheckpointError, match="meta device, where loading does nothing"):
        quiet(path, model=Net().to("meta"))
    with pytest.raises(CheckpointError, match=r"groups of \[2\] parameters, the file's of \[6\]"):
        quiet(path, model=Net(), optimizer=torch.optim.AdamW(Net().body.parameters()))
    half = quiet(path, model=Net().half())
    assert any("change type: float32 in the file, float16 here" in note for note in half.notes)


def test_the_optimizer_is_matched_by_name_in_another_order(tmp_path):
    one = Everything()
    one.train(2)
    path = save_checkpoint(tmp_path / "a.pt", step=2, model=one.model, optimizer=one.optimizer)
    net = Net()
    optimizer = torch.optim.AdamW(reversed(list(net.parameters())))
    loaded = quiet(path, model=net, optimizer=optimizer)
    assert any("matched by name" in note for note in loaded.notes)
    for mine, theirs in zip(net.parameters(), one.model.parameters(), strict=True):
        state, saved = optimizer.state[mine], one.optimizer.state[theirs]
        assert torch.equal(state["exp_avg"], saved["exp_avg"])
    optimizer.step()


def test_the_asked_learning_rate_is_named_when_the_saved_one_comes_back(tmp_path):
    one = Everything(lr=0.1)
    path = save_checkpoint(tmp_path / "a.pt", step=2, model=one.model, optimizer=one.optimizer)
    other = Everything(lr=0.05)
    loaded = quiet(path, model=other.model, optimizer=other.optimizer)
    assert any("file's 0.1 is back, not the 0.05" in note for note in loaded.notes)


def test_training_after_a_load_does_not_touch_the_file_or_another_load(tmp_path):
    one = Everything()
    one.train(2)
    path = save_checkpoint(tmp_path / "a.pt", step=2, **one.parts())
    whole = path.read_bytes()
    first, second = Everything(1), Everything(2)
    load_checkpoint(path, **first.parts())
    load_checkpoint(path, **second.parts())
    bits = second.bits()
    first.train(3)
    assert second.bits() == bits and path.read_bytes() == whole
    path.write_bytes(b"")  # nothing that was loaded lies in the file
    second.train(1)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_anybodys_file_is_read_and_what_it_does_not_record_is_said(tmp_path, new):
    one = Everything()
    one.train(3)
    path = tmp_path / "model.pth"
    content = {
        "epoch": 4,
        "state_dict": {f"module.{k}": v for k, v in one.model.state_dict().items()},
        "optimizer": one.optimizer.state_dict(),
        "lr_scheduler": one.scheduler.state_dict(),
        "best_acc1": torch.tensor(0.5),
        "arch": "net",
    }
    torch.save(content, path, _use_new_zipfile_serialization=new)
    other = Everything(1)
    parts = other.parts()
    del parts["sampler"]
    loaded = quiet(path, **parts)
    assert loaded.restored == ("model", "optimizer", "scheduler")
    assert loaded.missing == ("scaler", "ema") and (loaded.step, loaded.epoch) == (0, 4)
    assert loaded.extra == {"best_acc1": torch.tensor(0.5), "arch": "net"}
    assert torch.equal(other.model.body.weight, one.model.body.weight)
    text = str(loaded)
    assert "is not recorded" in text and "no random state" in text and "removeprefix" in text
    loaded.restore_rng()
    assert not loaded.rng_restored


def test_a_bare_state_dict_and_a_folder_of_anybodys_files(tmp_path):
    net = Net()
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    other = Net()
    assert quiet(tmp_path / "weights.pt", model=other).restored == ("model",)
    assert torch.equal(net.body.weight, other.body.weight)
    for step in (9, 10):
        torch.save({"model": net.state_dict(), "global_step": step}, tmp_path / f"x{step}.ckpt")
    assert quiet(tmp_path, model=other).step == 10
    (tmp_path / "x10.ckpt").write_bytes((tmp_path / "x10.ckpt").read_bytes()[:-100])
    loaded = quiet(tmp_path, model=other)
    assert loaded.step == 9 and "passed over: x10.ckpt (step 10) cannot be read" in str(loaded)


def test_no_code_from_a_file_is_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return print, ("ran",)

    torch.save({"model": Net().state_dict(), "x": Bomb()}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="is not safe to read") as caught:
        load_checkpoint(tmp_path / "a.pt", model=Net())
    assert caught.value.reason == "unsafe"
    torch.save({"args": argparse.Namespace(a=1), **Net().state_dict()}, tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match="argparse.Namespace"):
        load_checkpoint(tmp_path / "b.pt", model=Net())


def test_the_scaler_of_a_run_that_did_not_use_it(tmp_path):
    net = Net()
    off = torch.amp.GradScaler("cpu", enabled=False)
    path = save_checkpoint(tmp_path / "a.pt", step=1, model=net, scaler=off)
    loaded = quiet(path, model=net, scaler=torch.amp.GradScaler("cpu"))
    assert "scaler was disabled" in str(loaded) and loaded.restored == ("model",)


def test_a_loaders_own_generator_goes_on(tmp_path):
    def loader():
        data = torch.arange(12.0)
        return torch.utils.data.DataLoader(
            data, 4, shuffle=True, generator=torch.Generator().manual_seed(1)
        )

    one = loader()
    stream = iter(one)
    next(stream)
    path = save_checkpoint(tmp_path / "a.pt", step=1, model=Net(), loader=one)
    next_epoch = [batch.tolist() for batch in one]
    other = loader()
    loaded = quiet(path, model=Net(), loader=other)
    iter(other)
    loaded.restore_rng(other)
    assert [batch.tolist() for batch in other] == next_epoch


def test_a_full_disk_is_told_and_the_old_file_stays(tmp_path):
    import resource

    net = Net()
    path = save_checkpoint(tmp_path / "a.pt", step=1, model=net)
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(SaveFailed, match="nothing was saved: OSError: .*File too large"):
            save_checkpoint(path, step=2, model=nn.Linear(300, 300))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole and quiet(path, model=net).step == 1
    assert len(list(tmp_path.iterdir())) == 2
