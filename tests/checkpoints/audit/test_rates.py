"""The next learning rates: judged right exactly where the resumed run has the true ones."""

import copy
import math
import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as kinds

from loadwrap.checkpoints import audit_resume
from loadwrap.checkpoints.audit.record import take_record

KINDS = {
    "step": lambda o: kinds.StepLR(o, 4),
    "multistep": lambda o: kinds.MultiStepLR(o, [3, 9]),
    "exponential": lambda o: kinds.ExponentialLR(o, 0.9),
    "cosine": lambda o: kinds.CosineAnnealingLR(o, 20),
    "restarts": lambda o: kinds.CosineAnnealingWarmRestarts(o, 7),
    "linear": lambda o: kinds.LinearLR(o, 0.1, total_iters=12),
    "lambda": lambda o: kinds.LambdaLR(o, lambda n: min(1, (n + 1) / 5) * 0.95**n),
    "one cycle": lambda o: kinds.OneCycleLR(o, 0.3, total_steps=40),
    "cyclic": lambda o: kinds.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "warm-up and cosine": lambda o: kinds.SequentialLR(
        o, [kinds.LinearLR(o, 0.1, total_iters=5), kinds.CosineAnnealingLR(o, 15)], [5]
    ),
    "chained": lambda o: kinds.ChainedScheduler(
        [kinds.ConstantLR(o, 0.5, 4), kinds.ExponentialLR(o, 0.9)]
    ),
}
ORDERS = {
    "build, load both": "build optimizer scheduler",
    "build, load both, the other way round": "build scheduler optimizer",
    "load the optimizer, build, load the scheduler": "optimizer build scheduler",
    "no scheduler": "build optimizer",
    "no optimizer": "build scheduler",
    "neither": "build",
}


def run(optimizer, scheduler, steps):
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(steps):
            rates.append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            scheduler.step()
    return rates


def fresh(lr=0.1):
    net = nn.Linear(2, 2)
    groups = [{"params": [net.weight]}, {"params": [net.bias], "lr": lr / 2}]
    return net, torch.optim.SGD(groups, lr=lr, momentum=0.9)


@pytest.mark.parametrize("recorded", [False, True], ids=["any file", "with a record"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_is_the_truth(kind, recorded, monkeypatch):
    net, optimizer = fresh()
    scheduler = KINDS[kind](optimizer)
    run(optimizer, scheduler, 8)
    saved = {
        "step": 8,
        "model": net.state_dict(),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "scheduler": copy.deepcopy(scheduler.state_dict()),
    }
    record = take_record(model=net, optimizer=optimizer, scheduler=scheduler, step=8)
    truth = run(optimizer, scheduler, 3)
    if recorded:
        monkeypatch.setattr(
            "loadwrap.checkpoints.audit.saved.Saved.record", property(lambda self: record)
        )
    for name, order in ORDERS.items():
        twin, optimizer = fresh()
        twin.load_state_dict(saved["model"])
        parts = {"optimizer": optimizer}
        for word in order.split():
            if word == "build":
                parts["scheduler"] = KINDS[kind](optimizer)
            else:
                parts[word].load_state_dict(copy.deepcopy(saved[word]))
        report = audit_resume(saved, model=twin, **parts, show=False)
        coming = run(optimizer, parts["scheduler"], 3)
        right = all(
            math.isclose(one, other, rel_tol=1e-6)
            for now, then in zip(coming, truth, strict=True)
            for one, other in zip(now, then, strict=True)
        )
        verdict = report.verdict("next learning rates")
        assert (verdict == "ok") == right, f"{name}: {coming} {truth}\n{report}"
        assert right or report.codes["next learning rates"] == "F07 learning rate"


@pytest.mark.parametrize("kind", ["cosine", "lambda"])
def test_a_rate_that_came_with_no_optimizer_state_is_told_so(kind):
    """Its own words say what to do: an order of building and loading would not cure it."""
    net, optimizer = fresh()
    scheduler = KINDS[kind](optimizer)
    net(torch.ones(1, 2)).sum().backward()
    run(optimizer, scheduler, 8)
    saved = {"model": net.state_dict()}
    saved["optimizer"] = copy.deepcopy(optimizer.state_dict())
    saved["scheduler"] = copy.deepcopy(scheduler.state_dict())

    def words(order):
        twin, own = fresh()
        twin.load_state_dict(saved["model"])
        parts = {"optimizer": own}
        for word in order.split():
            if word == "build":
                parts["scheduler"] = KINDS[kind](parts["optimizer"])
            else:
                parts[word].load_state_dict(copy.deepcopy(saved[word]))
        return audit_resume(saved, model=twin, **parts, show=False).words("next learning rates")

    told = "The rate lies in the optimizer's state, and that was not loaded"
    assert told in words("build scheduler")
    assert "it was not loaded" in words("build") and told not in words("build")
    assert told not in words("optimizer build scheduler")
    assert words("build optimizer scheduler").endswith("as the file continues")


def test_rates_asked_for_of_several_groups():
    net, optimizer = fresh()
    scheduler = kinds.CosineAnnealingLR(optimizer, 20)
    run(optimizer, scheduler, 5)
    saved = {"model": net.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    saved["scheduler"] = copy.deepcopy(scheduler.state_dict())

    def verdict(asked):
        report = audit_resume(
            saved, model=net, optimizer=optimizer, scheduler=scheduler, asked_lr=asked, show=False
        )
        return report.verdict("next learning rates")

    assert verdict(0.1) == verdict([0.1, 0.05]) == "ok"
    assert verdict(0.02) == verdict([0.1, 0.1]) == "fault"
    for group, base in zip(optimizer.param_groups, (0.02, 0.01), strict=True):
        group["lr"] *= base / group["initial_lr"]
        group["initial_lr"] = base
    scheduler.base_lrs = [0.02, 0.01]
    assert verdict(0.02) == verdict([0.02, 0.01]) == "ok"
    assert verdict(0.1) == "fault"
    assert verdict([0.1]) == "not checked"


def test_two_networks_in_one_file_are_told_apart():
    """As a CycleGAN saves them: two nets of one kind, two optimizers, two schedules."""
    nets, optimizers, schedulers = [], [], []
    for at in range(2):
        net = nn.Linear(3, 3)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1 * (at + 1))
        scheduler = kinds.CosineAnnealingLR(optimizer, 20)
        for _ in range(3 + at):
            net(torch.randn(2, 3)).sum().backward()
            optimizer.step()
            scheduler.step()
        nets.append(net)
        optimizers.append(optimizer)
        schedulers.append(scheduler)
    saved = {
        "net_a": nets[0].state_dict(),
        "net_b": nets[1].state_dict(),
        "optimizers": [copy.deepcopy(one.state_dict()) for one in optimizers],
        "schedulers": [copy.deepcopy(one.state_dict()) for one in schedulers],
    }
    for net, optimizer, scheduler in zip(nets, optimizers, schedulers, strict=True):
        report = audit_resume(
            saved, model=net, optimizer=optimizer, scheduler=scheduler, show=False
        )
        assert report.first_fault is None, str(report)
        for check in ("next learning rates", "tensors loaded", "optimizer state"):
            assert report.verdict(check) == "ok", str(report)
