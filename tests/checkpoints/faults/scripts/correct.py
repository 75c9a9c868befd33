"""Correct resumes of many kinds: the audit must find no fault in any of them.

On two ranks the files are written and resumed; on any other number they are resumed only.
"""

import argparse
import copy
import json
import os
import sys
import traceback
from pathlib import Path

import image
import language
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from loadwrap.checkpoints import audit_resume, load_checkpoint, save_checkpoint
from loadwrap.checkpoints.audit.record import take_record

RESUMES = []
ANYWHERE = []
FOLDER = Path(sys.argv[1])


def resume(function):
    RESUMES.append(function)
    return function


def anywhere(function):
    """Also on another number of ranks than the file was written by."""
    ANYWHERE.append(function)
    return resume(function)


def audit(job, name, *but, **more):
    return audit_resume(FOLDER / name, **job.given(*but), show=False, **more)


def read(name):
    return torch.load(FOLDER / name, map_location="cpu")


def restored(name="image.pt", **options):
    job, saved = image.Job(**options), read(name)
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved)
    return job


def write(name, checkpoint, record=None, **options):
    if rank() == 0:
        torch.save(checkpoint, FOLDER / name, **options)
        if record is not None:
            size = os.path.getsize(FOLDER / name)
            manifest = {"step": record["step"], "world_size": 2, "size": size, "complete": True}
            manifest["record"] = record
            (FOLDER / f"{name}.manifest.json").write_text(json.dumps(manifest))
    dist.barrier()


def rank():
    return dist.get_rank()


@anywhere
def everything():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    same = dist.get_world_size() == 2
    job.load_rest(saved, *([] if same else ["rng_states", "sampler"]))
    if not same:
        job.sampler.set_epoch(saved["epoch"])
    return audit(job, "image.pt")


@anywhere
def everything_with_a_manifest():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    same = dist.get_world_size() == 2
    job.load_rest(saved, *([] if same else ["rng_states", "sampler"]))
    if not same:
        job.sampler.set_epoch(saved["epoch"])
    return audit(job, "bare.pt", step=saved["step"])


@anywhere
def compiled():
    job, saved = language.Job(), read("language.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "language.pt")


@anywhere
def saved_and_loaded_by_this_package():
    parts = ("model", "optimizer", "scheduler", "scaler", "ema")
    if dist.get_world_size() == 2:
        job = image.Job(seed=8, adam=True)
        job.wrap()
        job.train(10)
        given = {part: job.given()[part] for part in parts}
        save_checkpoint(FOLDER / "ours", step=10, sampler=job.sampler, loader=job.loader, **given)
    for wrap_first in (False, True):
        job = image.Job(seed=9, adam=True)
        if wrap_first:
            job.wrap()
        given = {part: job.given()[part] for part in parts}
        loaded = load_checkpoint(FOLDER / "ours", sampler=job.sampler, loader=job.loader, **given)
        if not wrap_first:
            job.wrap()
        for checkpoint in (loaded, loaded.path, FOLDER / "ours"):
            report = audit_resume(checkpoint, **job.given(), step=loaded.step, show=False)
            assert report.first_fault is None, str(report)
        job.sampler.set_epoch(loaded.epoch)
        iter(job.loader)
        if loaded.rng is not None:
            loaded.restore_rng(job.loader)
        report = audit_resume(loaded, **job.given(), step=loaded.step, show=False)
        if report.first_fault:
            break
    return report


@resume
def with_the_position():
    return audit(restored(), "image.pt", step=10, position=2, epoch=2)


@resume
def wrapped_first():
    job, saved = image.Job(), read("image.pt")
    job.wrap().load_state_dict(saved["state_dict"])
    job.load_rest(saved)
    return audit(job, "image.pt")


@resume
def compiled_file_into_a_bare_model():
    job, saved = language.Job(compiled=False), read("language.pt")
    names = {name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()}
    job.net.load_state_dict(names)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "language.pt")


@resume
def compiled_inside_and_outside():
    job = restored()
    model = torch.compile(job.ddp)
    return audit(job, "image.pt", "model", model=model)


@resume
def one_child_compiled():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.net.body = torch.compile(job.net.body)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "image.pt")


@resume
def names_in_the_file():
    job, saved = language.Job(names=True), read("names.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "names.pt")


@resume
def parameters_changed_places_and_state_followed_by_name():
    class Swapped(language.Block):
        def __init__(self):
            nn.Module.__init__(self)
            self.value = nn.Linear(8, 8, bias=False)
            self.query = nn.Linear(8, 8, bias=False)
            self.norm = nn.LayerNorm(8)

    net = language.Lm()
    net.blocks = nn.ModuleList(Swapped() for _ in range(2))
    job, saved = language.Job(net=net, names=True), read("names.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    theirs = {}
    for group in saved["optimizer"]["param_groups"]:
        theirs |= dict(zip(group["param_names"], group["params"], strict=True))
    mine = job.optimizer.state_dict()
    state = {
        at: saved["optimizer"]["state"][theirs[name]]
        for group in mine["param_groups"]
        for name, at in zip(group["param_names"], group["params"], strict=True)
    }
    for group, then in zip(mine["param_groups"], saved["optimizer"]["param_groups"], strict=True):
        group["lr"], group["initial_lr"] = then["lr"], then["initial_lr"]
    job.optimizer.load_state_dict({**mine, "state": state})
    job.load_rest(saved, "optimizer")
    return audit(job, "names.pt")


@resume
def another_rate_on_purpose():
    job = restored()
    for group in job.optimizer.param_groups:
        group["lr"] *= 0.05 / group["initial_lr"]
        group["initial_lr"] = 0.05
    for part in (job.scheduler, *job.scheduler._schedulers):
        if hasattr(part, "base_lrs"):
            part.base_lrs = [0.05 for _ in part.base_lrs]
    return audit(job, "image.pt", asked_lr=0.05)


@resume
def another_rate_on_purpose_without_a_schedule():
    job = restored()
    for group in job.optimizer.param_groups:
        group["lr"] = 0.02
    return audit(job, "image.pt", "scheduler", asked_lr=0.02)


@resume
def the_same_rate_asked_for():
    return audit(restored(), "image.pt", asked_lr=0.1)


@resume
def a_longer_schedule():
    job = restored("bare.pt", adam=True)
    for part in job.scheduler._schedulers:
        if isinstance(part, lr_scheduler.CosineAnnealingLR):
            part.T_max = 400
    report = audit(job, "bare.pt")
    assert report.codes.get("next learning rates"), "closed forms keep their length in the file"
    return report if report.first_fault is None else audit(job, "bare.pt", ignore="next*")


def schedules(optimizer):
    chain = [
        lr_scheduler.ConstantLR(optimizer, 0.5, 3),
        lr_scheduler.ExponentialLR(optimizer, 0.9),
    ]
    yield lambda: lr_scheduler.StepLR(optimizer, 4)
    yield lambda: lr_scheduler.MultiStepLR(optimizer, [3, 6, 11])
    yield lambda: lr_scheduler.CosineAnnealingLR(optimizer, 30)
    yield lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)
    yield lambda: lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    yield lambda: lr_scheduler.PolynomialLR(optimizer, 30)
    yield lambda: lr_scheduler.LambdaLR(optimizer, lambda n: 0.9**n)
    yield lambda: lr_scheduler.MultiplicativeLR(optimizer, lambda n: 0.95)
    yield lambda: lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=12)
    yield lambda: lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4)
    yield lambda: lr_scheduler.ChainedScheduler(chain)
    yield lambda: lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)


@resume
def every_schedule_of_torch():
    for at in range(12):
        reports = []
        for name in (None, "record"):
            one = image.Job(seed=3)
            with_state = list(schedules(one.optimizer))[at]()
            for _ in range(10):
                one.optimizer.step()
                arguments = (1.0,) if hasattr(with_state, "num_bad_epochs") else ()
                with_state.step(*arguments)
            saved = {
                "step": 10,
                "epoch": 2,
                "model": one.net.state_dict(),
                "optimizer": one.optimizer.state_dict(),
                "lr_scheduler": with_state.state_dict(),
            }
            record = take_record(
                model=one.net, optimizer=one.optimizer, scheduler=with_state, step=10
            )
            write(f"schedule{at}.pt", saved, record if name else None)
            two = image.Job(seed=4)
            scheduler = list(schedules(two.optimizer))[at]()
            loaded = read(f"schedule{at}.pt")
            two.net.load_state_dict(loaded["model"])
            two.optimizer.load_state_dict(loaded["optimizer"])
            scheduler.load_state_dict(loaded["lr_scheduler"])
            before = copy.deepcopy((scheduler.state_dict(), two.optimizer.param_groups[0]["lr"]))
            report = audit_resume(
                FOLDER / f"schedule{at}.pt",
                model=two.net,
                optimizer=two.optimizer,
                scheduler=scheduler,
                show=False,
            )
            after = (scheduler.state_dict(), two.optimizer.param_groups[0]["lr"])
            assert str(before) == str(after), scheduler
            assert report.verdict("next learning rates") == "ok", str(report)
            reports.append(report)
            if report.first_fault:
                return report
    return reports[-1]


@resume
def a_schedule_by_the_epoch_in_the_first_epoch():
    job = image.Job(seed=3)
    scheduler = lr_scheduler.CosineAnnealingLR(job.optimizer, 10)
    saved = {"epoch": 0, "step": 3, "model": job.net.state_dict()}
    saved["optimizer"] = job.optimizer.state_dict()
    return audit_resume(
        saved, model=job.wrap(), optimizer=job.optimizer, scheduler=scheduler, show=False
    )


@resume
def rates_set_by_hand():
    one = language.Job(seed=3)
    for group in one.optimizer.param_groups:
        group["lr"] = 0.00123
    write("hand.pt", one.checkpoint(40))
    two = language.Job(seed=4)
    two.compiled.load_state_dict(read("hand.pt")["model"])
    two.optimizer.load_state_dict(read("hand.pt")["optimizer"])
    return audit(two, "hand.pt", "scheduler", "ema")


@resume
def half_precision_in_the_file():
    saved = read("bare.pt")
    weights = {
        name: value.half() if value.is_floating_point() else value
        for name, value in saved["state_dict"].items()
    }
    job = image.Job()
    job.net.load_state_dict(weights)
    return audit_resume({"state_dict": weights}, model=job.wrap(), show=False)


@resume
def a_bfloat16_model():
    one = image.Job(net=image.Net().bfloat16(), adam=True)
    for parameter in one.net.parameters():
        parameter.grad = torch.ones_like(parameter)
    one.optimizer.step()
    write("bfloat16.pt", one.checkpoint(1))
    two = image.Job(net=image.Net().bfloat16(), adam=True)
    two.net.load_state_dict(read("bfloat16.pt")["state_dict"])
    two.wrap()
    two.load_rest(read("bfloat16.pt"))
    return audit(two, "bfloat16.pt", "loader")


@resume
def a_frozen_backbone():
    def build():
        net = image.Net()
        net.stem.requires_grad_(False)
        net.norm.requires_grad_(False)
        heads = [*net.body.parameters(), *net.head.parameters()]
        optimizer = torch.optim.SGD(heads, lr=0.1, momentum=0.9)
        return net, optimizer

    net, optimizer = build()
    for parameter in net.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    write("frozen.pt", {"model": net.state_dict(), "optimizer": optimizer.state_dict()})
    net, optimizer = build()
    net.load_state_dict(read("frozen.pt")["model"])
    ddp = nn.parallel.DistributedDataParallel(net)
    optimizer.load_state_dict(read("frozen.pt")["optimizer"])
    return audit_resume(FOLDER / "frozen.pt", model=ddp, optimizer=optimizer, show=False)


@resume
def no_state_to_keep():
    net = image.Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    write("plain.pt", saved)
    saved = read("plain.pt")
    net = image.Net()
    net.load_state_dict(saved["model"])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.load_state_dict(saved["optimizer"])
    return audit_resume(FOLDER / "plain.pt", model=net, optimizer=optimizer, show=False)


@resume
def other_optimizers():
    kinds = (
        torch.optim.Adagrad,
        torch.optim.RMSprop,
        torch.optim.Adafactor,
        torch.optim.NAdam,
        torch.optim.LBFGS,
        torch.optim.Rprop,
    )
    for kind in kinds:

        def build(kind=kind):
            net = image.Net()
            return net, kind(net.parameters(), lr=0.01)

        net, optimizer = build()
        for parameter in net.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(*([lambda: torch.tensor(1.0)] if kind is torch.optim.LBFGS else []))
        write("kind.pt", {"model": net.state_dict(), "optimizer": optimizer.state_dict()})
        net, optimizer = build()
        net.load_state_dict(read("kind.pt")["model"])
        optimizer.load_state_dict(read("kind.pt")["optimizer"])
        report = audit_resume(FOLDER / "kind.pt", model=net, optimizer=optimizer, show=False)
        assert report.verdict("optimizer state") == "ok", str(report)
    return report


@resume
def a_file_with_an_object_that_is_refused():
    job = restored()
    saved = read("image.pt")
    saved["args"] = argparse.Namespace(lr=0.1, path=Path("data"))
    write("args.pt", saved)
    return audit(job, "args.pt")


@resume
def the_old_format():
    job = restored()
    write("old.pt", read("image.pt"), _use_new_zipfile_serialization=False)
    return audit(job, "old.pt")


@resume
def a_tied_weight_that_the_file_has_once():
    job, saved = language.Job(compiled=False), read("language.pt")
    weights = {name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()}
    del weights["head.weight"]
    job.net.load_state_dict(weights, strict=False)
    return audit_resume({"model": weights}, model=job.wrap(), show=False)


@resume
def the_end_of_an_epoch():
    saved = read("image.pt")
    for epoch in (2, 3):  # the epoch that was done, or the one to do
        job = restored()
        job.sampler.set_epoch(3)
        report = audit_resume(
            {**saved, "step": 12, "epoch": epoch}, **job.given("scheduler", "optimizer"), show=False
        )
        if report.first_fault:
            break
    return report


@resume
def gradients_accumulated():
    job, saved = restored(), read("image.pt")
    del saved["epoch"]
    saved["step"] = 5  # of two batches each
    return audit_resume(saved, **job.given("scheduler", "optimizer"), show=False)


@resume
def a_loader_without_a_sampler_of_ours():
    job = restored()
    loader = DataLoader(image.DATA, 4, shuffle=True, generator=torch.Generator())
    return audit(job, "image.pt", "loader", loader=loader)


@resume
def a_part_left_out_on_purpose():
    job, saved = image.Job(net=image.Net(classes=7)), read("bare.pt")
    weights = {name: value for name, value in saved["state_dict"].items() if "head" not in name}
    job.net.load_state_dict(weights, strict=False)
    return audit_resume(FOLDER / "bare.pt", model=job.wrap(), ignore=["head.*", "RNG*"], show=False)


@resume
def sharded_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    job = restored("bare.pt", adam=True)
    sharded = ZeroRedundancyOptimizer(job.net.parameters(), torch.optim.AdamW, lr=0.1)
    saved = read("bare.pt")["optimizer"]
    saved["param_groups"][0].pop("initial_lr")
    sharded.load_state_dict(saved)
    report = audit(job, "bare.pt", "optimizer", "scheduler", optimizer=sharded, ignore="next*")
    assert report.verdict("optimizer state") == "by design", str(report)
    return report


@resume
def sharded_parameters():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    job = restored()
    net = job.net
    for name in ("body", "head"):
        layer = getattr(net, name)
        layer.weight = nn.Parameter(distribute_tensor(layer.weight.detach(), mesh, [Shard(0)]))
    report = audit_resume(FOLDER / "image.pt", model=net, show=False)
    assert "2 sharded ones hold their part" in report.words("tensors loaded"), str(report)
    assert "by design" in report.words("spread across ranks"), str(report)
    return report


@resume
def sharded_by_fsdp():
    from torch.distributed.fsdp import fully_shard

    saved, net = read("bare.pt"), image.Net()
    net.load_state_dict(saved["state_dict"])
    fully_shard(net)
    report = audit_resume(FOLDER / "bare.pt", model=net, ignore="RNG*", show=False)
    assert report.words("tensors loaded") == "8 sharded ones hold their part of the file"
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    fresh = audit_resume(FOLDER / "bare.pt", model=net, optimizer=optimizer, show=False)
    assert fresh.codes["optimizer state"] == "F06 optimizer state", str(fresh)
    with torch.no_grad():
        net.head.weight.add_(1)
    wrong = audit_resume(FOLDER / "bare.pt", model=net, show=False)
    assert wrong.first_fault == "F04 tensors not loaded", str(wrong)
    return report


@resume
def statistics_that_differ_between_ranks():
    job = restored()
    job.net.norm.running_mean.add_(rank())  # what a training step leaves behind
    report = audit(job, "image.pt")
    assert report.verdict("buffers") == "by design", str(report)
    return report


@resume
def nothing_changes():
    job = restored()
    job.net.eval()

    def state():
        return str((
            job.optimizer.state_dict(), job.scheduler.state_dict(), job.scaler.state_dict(),
            job.ema.state_dict(), job.net.state_dict(), job.sampler.__dict__, job.net.training,
            torch.get_rng_state().tolist(), sorted(os.listdir(FOLDER)),
        ))  # fmt: skip

    before = state()
    report = audit(job, "image.pt")
    assert state() == before
    assert "eval mode" in str(report)
    return report


def files():
    job = image.Job(seed=5)
    job.wrap()
    job.train(10)
    write("image.pt", job.checkpoint(10))
    job = image.Job(seed=6, adam=True)
    job.wrap()
    job.train(10)
    record = take_record(model=job.ddp, step=10, epoch=2, **job.given("model"))
    write("bare.pt", job.checkpoint(10, job.net.state_dict()), record)
    for name, named in (("language.pt", False), ("names.pt", True)):
        other = language.Job(seed=7, names=named)
        other.wrap()
        other.train(5)
        write(name, other.checkpoint(5))


def main():
    if dist.get_world_size() == 2:
        files()
    for function in RESUMES if dist.get_world_size() == 2 else ANYWHERE:
        found, words = None, ""
        try:
            report = function()
            found, words = report.first_fault, str(report)
        except Exception:
            found = words = traceback.format_exc()
        line = {"family": None, "dress": function.__name__, "found": found, "words": words}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main()
    dist.barrier()
    dist.destroy_process_group()
