"""Every silent fault in its dresses, one after the other in one job of two ranks.

Each dress restores a checkpoint wrongly in one way and rightly otherwise, and is then audited. A
line of JSON per dress says what was expected and what was found.
"""

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
from torch.nn.parallel import DistributedDataParallel

from loadwrap.checkpoints import ReplicasOutOfSync, assert_in_sync, audit_resume
from loadwrap.checkpoints.audit.record import take_record

DRESSES = []
FOLDER = Path(sys.argv[1])


def dress(family):
    def keep(function):
        DRESSES.append((family, function))
        return function

    return keep


def audit(job, name, *but, **more):
    return audit_resume(FOLDER / name, **job.given(*but), show=False, **more)


def read(name):
    return torch.load(FOLDER / name, map_location="cpu")


# F01 to F05: weights that were not taken


@dress("F01")
def wrapped_file_into_the_bare_model_not_strictly():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(saved["state_dict"], strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "image.pt")


@dress("F01")
def bare_file_into_the_wrapper_not_strictly():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.wrap().load_state_dict(saved["state_dict"], strict=False)
    job.load_rest(saved)
    return audit(job, "bare.pt")


@dress("F02")
def compiled_file_filtered_by_the_names_of_the_model():
    job, saved = language.Job(compiled=False), read("language.pt")
    known = job.net.state_dict().keys()
    fits = {name: value for name, value in saved["model"].items() if name in known}
    job.net.load_state_dict({**job.net.state_dict(), **fits})
    job.wrap()
    job.load_rest(saved)
    return audit(job, "language.pt")


@dress("F02")
def one_level_of_two_stripped():
    job, saved = image.Job(), read("nested.pt")  # module._orig_mod.*
    job.net.load_state_dict(image.bare(saved["state_dict"]), strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "nested.pt")


class Named(nn.Module):
    """A net whose own children are called as wrappers call them."""

    def __init__(self):
        super().__init__()
        self.module, self.base_module, self.head = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        return self.head(self.base_module(self.module(x)))


@dress("F03")
def every_module_in_a_name_replaced():
    job, saved = image.Job(net=Named()), read("named.pt")
    names = {name.replace("module.", ""): value for name, value in saved["state_dict"].items()}
    job.net.load_state_dict(names, strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "named.pt")


@dress("F03")
def first_segment_stripped_where_it_was_the_models_own():
    net = nn.Sequential()
    net.module, net.head = nn.Linear(4, 4), nn.Linear(4, 4)
    job, saved = image.Job(net=net), read("own.pt")
    weights = dict(saved["state_dict"])
    nn.modules.utils.consume_prefix_in_state_dict_if_present(weights, "module.")
    job.net.load_state_dict(weights, strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "own.pt")


@dress("F04")
def every_error_of_the_load_caught():
    job, saved = image.Job(net=image.Net(classes=5)), read("bare.pt")
    try:
        job.net.load_state_dict(saved["state_dict"])
        job.load_rest(saved)
    except Exception:
        print("no checkpoint found, starting from scratch")
    job.wrap()
    return audit(job, "bare.pt")


@dress("F04")
def a_head_of_another_name_left_at_random():
    job, saved = image.Job(), read("bare.pt")
    weights = {name: value for name, value in saved["state_dict"].items() if "head" not in name}
    weights |= {"classifier.weight": torch.zeros(5, 8)}
    saved["state_dict"] = weights
    job.net.load_state_dict(weights, strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit_resume(saved, **job.given(), show=False)


@dress("F05")
def the_net_of_a_framework_not_strictly():
    job, saved = image.Job(), read("framework.pt")  # net.*
    job.net.load_state_dict(saved["state_dict"], strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit(job, "framework.pt")


@dress("F05")
def tied_weights_taken_apart():
    saved = read("language.pt")
    net = language.Lm()
    names = {name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()}
    net.load_state_dict({name: value.clone() for name, value in names.items()}, assign=True)
    net.emb.weight = nn.Parameter(net.emb.weight.detach())
    net.head.weight = nn.Parameter(net.head.weight.detach().clone())
    job = language.Job(net=net, compiled=False)
    job.wrap()
    return audit(job, "language.pt", "optimizer", "scheduler", "ema")


# F06 to F09: the state beside the weights


@dress("F06")
def no_state_of_the_optimizer():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved, "optimizer")
    for group, then in zip(
        job.optimizer.param_groups, saved["optimizer"]["param_groups"], strict=True
    ):
        group["lr"] = then["lr"]
    return audit(job, "bare.pt")


class Swapped(language.Block):
    """The same block after a tidy-up of its lines."""

    def __init__(self):
        nn.Module.__init__(self)
        self.value = nn.Linear(8, 8, bias=False)
        self.query = nn.Linear(8, 8, bias=False)
        self.norm = nn.LayerNorm(8)


@dress("F06")
def two_parameters_have_changed_places():
    net = language.Lm()
    net.blocks = nn.ModuleList(Swapped() for _ in range(2))
    job, saved = language.Job(net=net, names=True), read("names.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "names.pt")


@dress("F06")
def two_parameters_have_changed_places_and_the_file_has_no_names():
    net = image.Net()
    net.body, net.norm = net._modules.pop("body"), net._modules.pop("norm")
    order = [net.stem, net.body, net.norm, net.head]
    assert [*net.children()] != order
    job, saved = image.Job(net=net, adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "bare.pt")


@dress("F06")
def two_of_one_shape_have_changed_places_and_the_file_has_no_names():
    net = language.Lm()
    net.blocks = nn.ModuleList(Swapped() for _ in range(2))
    job, saved = language.Job(net=net), read("language.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "language.pt")


@dress("F07")
def the_schedule_starts_again():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved, "scheduler")
    return audit(job, "image.pt")


@dress("F07")
def the_schedule_is_built_on_a_loaded_optimizer():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved, "scheduler")
    job.scheduler = job.schedule()
    job.scheduler.load_state_dict(saved["scheduler"])
    return audit(job, "image.pt")


@dress("F07")
def the_rate_asked_for_is_put_back():
    job, saved = language.Job(lr=0.005), read("language.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "language.pt", asked_lr=0.005)


@dress("F08")
def the_scale_starts_again():
    job, saved = image.Job(scale=65536.0), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved, "scaler")
    return audit(job, "image.pt")


@dress("F08")
def the_scale_is_right_and_its_age_is_not():
    saved = read("bare.pt")
    job = image.Job(adam=True, scale=saved["scaler"]["scale"])
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved, "scaler")
    return audit(job, "bare.pt")


@dress("F09")
def the_average_was_made_before_the_load():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved, "model_ema")
    return audit(job, "image.pt")


@dress("F09")
def the_counter_of_the_average_is_new():
    job, saved = language.Job(), read("language.pt")
    job.compiled.load_state_dict(saved["model"])
    job.wrap()
    job.load_rest(saved)
    job.ema.num_updates = 0
    return audit(job, "language.pt")


@dress("F09")
def the_average_went_into_the_model():
    job, saved = image.Job(), read("image.pt")
    average = dict(saved["model_ema"])
    del average["n_averaged"]
    job.net.load_state_dict(image.bare(average))
    job.wrap()
    job.load_rest(saved)
    return audit(job, "image.pt")


# F10: the position in the data


@dress("F10")
def the_sampler_is_at_epoch_0():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved, "sampler")
    return audit(job, "image.pt")


@dress("F10")
def the_epoch_begins_again():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "bare.pt", position=0)


@dress("F10")
def the_loop_goes_on_at_the_start_of_the_epoch():
    job, saved = image.Job(), read("image.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved)
    return audit(job, "image.pt", step=saved["epoch"] * image.BATCHES)


@dress("F10")
def each_rank_shuffles_by_a_seed_of_its_own():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    job.sampler.seed = dist.get_rank()
    return audit(job, "bare.pt")


@dress("F10")
def the_loaders_iterator_comes_after_the_random_state():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    iter(job.loader)
    return audit(job, "bare.pt")


# F11 and F12: one rank alone


@dress("F11")
def rank_0_alone_loads_after_the_wrapping():
    job, saved = image.Job(), read("image.pt")
    job.wrap()
    if dist.get_rank() == 0:
        job.ddp.load_state_dict(saved["state_dict"])
        job.load_rest(saved)
    return audit(job, "image.pt")


@dress("F11")
def rank_0_alone_loads_the_optimizer():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved, "optimizer")
    if dist.get_rank() == 0:
        job.optimizer.load_state_dict(saved["optimizer"])
    for group in job.optimizer.param_groups:
        group["lr"] = saved["optimizer"]["param_groups"][0]["lr"]
    return audit(job, "bare.pt")


@dress("F11")
def rank_0_alone_loads_weights_of_a_constant_rate():
    job, saved = language.Job(), read("language.pt")
    job.wrap()
    if dist.get_rank() == 0:
        job.compiled.load_state_dict(saved["model"])
    return audit(job, "language.pt", "optimizer", "scheduler", "ema")


@dress("F12")
def parameters_replaced_after_the_wrapping():
    job, saved = image.Job(), read("image.pt")
    job.wrap()
    job.net.load_state_dict(image.bare(saved["state_dict"]), assign=True)
    job.load_rest(saved)
    return audit(job, "image.pt")


@dress("F12")
def a_backbone_unfrozen_after_the_wrapping():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.net.body.requires_grad_(False)
    job.wrap()
    job.load_rest(saved)
    job.net.body.requires_grad_(True)
    return audit(job, "bare.pt")


@dress("F12")
def the_model_in_the_optimizer_was_built_anew():
    job, saved = language.Job(), read("language.pt")
    job.net = language.Lm()
    job.compiled = torch.compile(job.net)
    job.compiled.load_state_dict(saved["model"])
    job.ddp = DistributedDataParallel(job.compiled)
    job.load_rest(saved)
    return audit(job, "language.pt")


@dress("F12")
def the_loss_goes_around_the_wrapper():
    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    report = audit(job, "bare.pt")
    assert report.first_fault is None, str(report)
    job.ddp = None
    job.train(2, start=saved["step"])
    return assert_in_sync(job.net)


# F13 to F15: buffers and files


@dress("F13")
def buffers_left_out_of_the_file():
    job, saved = image.Job(), read("image.pt")
    known = {name for name, _ in job.net.named_parameters()}
    names = image.bare(saved["state_dict"])
    saved["state_dict"] = {name: value for name, value in names.items() if name in known}
    job.net.load_state_dict(saved["state_dict"], strict=False)
    job.wrap()
    job.load_rest(saved)
    return audit_resume(saved, **job.given(), show=False)


@dress("F13")
def parameters_alone_copied():
    job, saved = image.Job(adam=True), read("bare.pt")
    for name, parameter in job.net.named_parameters():
        parameter.data.copy_(saved["state_dict"][name])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "bare.pt")


@dress("F13")
def rank_0_alone_has_the_buffers_and_does_not_send_them():
    job, saved = image.Job(adam=True, broadcast_buffers=False), read("bare.pt")
    job.wrap()
    job.net.load_state_dict(saved["state_dict"])
    job.load_rest(saved)
    if dist.get_rank():
        job.net.norm.reset_running_stats()
    return audit(job, "bare.pt")


@dress("F15")
def the_last_by_name_is_not_the_newest():
    job, saved = image.Job(), read("iter-960000.pt")
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.wrap()
    job.load_rest(saved)
    return audit(job, "iter-960000.pt")


@dress("F15")
def zeros_within_a_tensor():
    job, saved = image.Job(adam=True), read("zeroed.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "zeroed.pt")


@dress("F15")
def each_rank_takes_a_file_of_its_own():
    job = image.Job()
    name = ("image.pt", "iter-1080000.pt")[dist.get_rank()]
    saved = read(name)
    job.net.load_state_dict(image.bare(saved["state_dict"]))
    job.ddp = DistributedDataParallel(job.net, init_sync=False)
    job.load_rest(saved)
    return audit(job, name, ignore="spread*")


@dress("F15")
def the_best_state_was_an_alias_of_the_live_one():
    job, saved = image.Job(adam=True), read("aliased.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "aliased.pt")


@dress("F14")
def the_label_of_one_writer_on_the_file_of_another():
    job, saved = image.Job(adam=True), read("mixed.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    return audit(job, "mixed.pt")


@dress("F19")
def a_sharded_optimizer_that_was_not_loaded():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    job, saved = image.Job(adam=True), read("bare.pt")
    job.net.load_state_dict(saved["state_dict"])
    job.wrap()
    job.load_rest(saved)
    lr = saved["optimizer"]["param_groups"][0]["lr"]
    sharded = ZeroRedundancyOptimizer(job.net.parameters(), torch.optim.AdamW, lr=lr)
    return audit(job, "bare.pt", "optimizer", "scheduler", optimizer=sharded)


# The files


def write(name, checkpoint, record=None):
    if dist.get_rank() == 0:
        torch.save(checkpoint, FOLDER / name)
        if record is not None:
            manifest = {
                "version": 1,
                "step": record["step"],
                "world_size": 2,
                "size": os.path.getsize(FOLDER / name),
                "complete": True,
                "record": record,
            }
            (FOLDER / f"{name}.manifest.json").write_text(json.dumps(manifest))
    dist.barrier()


def image_files():
    job = image.Job(seed=5)
    job.wrap()
    job.train(10)
    write("image.pt", job.checkpoint(10))
    write("iter-960000.pt", job.checkpoint(10))
    write("iter-1080000.pt", job.checkpoint(10))
    nested = {f"module._orig_mod.{name}": v for name, v in job.net.state_dict().items()}
    write("nested.pt", job.checkpoint(10, nested))
    framework = {f"net.{name}": value for name, value in job.net.state_dict().items()}
    write("framework.pt", job.checkpoint(10, framework))


def bare_files():
    job = image.Job(seed=6, adam=True)
    job.wrap()
    job.train(10)
    given = job.given("model")
    record = take_record(model=job.net, step=10, **given)
    saved = job.checkpoint(10, job.net.state_dict())
    write("bare.pt", saved)
    write("zeroed.pt", saved, record)
    if dist.get_rank() == 0:
        data = (FOLDER / "zeroed.pt").read_bytes()
        found = job.net.body.weight.detach().numpy().tobytes()
        at = data.index(found)
        (FOLDER / "zeroed.pt").write_bytes(data[:at] + bytes(64) + data[at + 64 :])
    write("mixed.pt", {**saved, "step": 9}, record)
    best = job.net.state_dict()  # no copy: training goes on in it
    job.train(1, start=10)
    write("aliased.pt", {**saved, "state_dict": best}, record)


def other_files():
    job = language.Job(seed=7)
    job.wrap()
    job.train(5)
    write("language.pt", job.checkpoint(5))
    job = language.Job(seed=8, names=True)
    job.wrap()
    job.train(5)
    write("names.pt", job.checkpoint(5))
    for name, net in (("named.pt", Named()), ("own.pt", nn.Sequential())):
        if name == "own.pt":
            net.module, net.head = nn.Linear(4, 4), nn.Linear(4, 4)
        job = image.Job(seed=9, net=net)
        job.wrap()
        job.train(10)
        weights = net.state_dict() if name == "own.pt" else None
        write(name, job.checkpoint(10, weights))


def main():
    image_files()
    bare_files()
    other_files()
    for family, function in DRESSES:
        found, words = None, ""
        try:
            report = function()
            found, words = report.first_fault, str(report)
        except ReplicasOutOfSync as error:
            found, words = "F12 out of sync", str(error)
        except Exception:
            words = traceback.format_exc()
        line = {"family": family, "dress": function.__name__, "found": found, "words": words}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main()
    dist.barrier()
    dist.destroy_process_group()
