"""assert_in_sync names on every rank what differs between real ranks, and fails on nothing else."""

import math

import pytest
import torch

from loadwrap.checkpoints import assert_in_sync, spread

NET = """
from loadwrap.checkpoints import ReplicasOutOfSync, assert_in_sync, spread

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.module = nn.Linear(16, 3)  # a child that has the name of a wrapper's segment
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        return self.module(torch.relu(self.norm(self.conv(x))).flatten(1)) * self.scale

def caught(call):
    try:
        return str(call())
    except ReplicasOutOfSync as error:
        largest = error.largest
        return [error.part, error.name, list(error.ranks), largest, str(error)]
    except Exception as error:
        return [type(error).__name__, str(error)]

torch.manual_seed(0)
net = Net()
"""


def run(ranks, body, *arguments, **options):
    import textwrap

    return ranks(NET + textwrap.dedent(body), *arguments, **options)


def same_on_all(said):
    assert all(repr(facts) == repr(said[0]) for facts in said)
    return said[0]


def test_without_a_process_group_there_is_nothing_to_compare(monkeypatch):
    model = torch.nn.Linear(2, 2)
    assert "nothing to compare with" in str(assert_in_sync(model))
    assert spread(model) == 0.0
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="4 ranks, but there is no process group"):
        assert_in_sync(model)


def test_training_under_ddp_stays_in_sync_and_buffers_do_not_fail(ranks):
    said = run(
        ranks,
        """
        ddp = DistributedDataParallel(net)
        optimizer = torch.optim.Adam(ddp.parameters())
        torch.manual_seed(rank)
        for step in range(3):
            ddp(torch.randn(8, 1, 4, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        say(
            default=caught(lambda: assert_in_sync(ddp, optimizer)),
            buffers=caught(lambda: assert_in_sync(ddp, optimizer, buffers=True)),
            spread=spread(ddp),
        )
        ddp(torch.randn(8, 1, 4, 4))  # sends rank 0's buffers, then each rank updates its own
        ddp.eval()
        ddp(torch.randn(8, 1, 4, 4))
        say(after=caught(lambda: assert_in_sync(ddp, optimizer, buffers=True)))
        """,
    )
    facts = same_on_all(said)
    assert facts["spread"] == 0.0
    lines = facts["default"].splitlines()
    assert lines[0] == "parameters: 6 tensors equal on 2 ranks"
    assert "tensors and settings equal on 2 ranks" in lines[1]
    assert "batch norm's buffers: 3 tensors, not all equal (by design" in facts["default"]
    part, name, odd, largest, text = facts["buffers"]
    assert (part, name, odd) == ("batch norm's buffers", "norm.running_mean", [1])
    assert 0 < largest < 1 and "by design" in text
    assert facts["after"].count("equal on 2 ranks") == 4


def test_a_difference_is_named_by_tensor_ranks_and_size_on_every_rank(ranks):
    said = run(
        ranks,
        """
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        ddp = DistributedDataParallel(torch.compile(net))
        check = lambda **options: caught(lambda: assert_in_sync(ddp, optimizer, **options))
        with torch.no_grad():
            if rank == 2:
                net.module.weight[1, 2] += 0.5
                net.module.bias[0] += 4
            say(weight=check(), spread=spread(ddp), ignored=check(ignore=["module.*"]))
            net.module.weight.fill_(1.0)
            net.module.bias.fill_(float("nan") if rank == 0 else 1.0)
            say(nan=check(), nan_spread=spread(ddp))
            net.module.bias.fill_(0.0 if rank else -0.0)
            say(zero=check(), zero_spread=spread(ddp))
            net.module.bias.fill_(float("inf"))
            say(infinite=check(), infinite_spread=spread(ddp))
            net.scale.mul_(rank)
            say(buffer=check(), buffers=check(buffers=True))
        """,
        3,
    )
    facts = same_on_all(said)
    part, name, odd, largest, text = facts["weight"]
    assert (part, name, odd, largest) == ("parameters", "module.weight", [2], 0.5)
    assert text.startswith(
        "parameter module.weight differs by up to 0.5, in 1 of 48 values: rank 2 against ranks 0, 1"
    )
    assert "2 of 6 tensors differ" in text and "settings equal on 3 ranks" in text
    assert facts["spread"] == pytest.approx(4.0)
    assert "2 tensors ignored" in facts["ignored"]
    assert facts["nan"][:3] == ["parameters", "module.bias", [0]]
    assert math.isnan(facts["nan"][3]) and math.isnan(facts["nan_spread"])
    assert "a NaN that some ranks do not have" in facts["nan"][4]
    assert facts["zero"][3] == 0.0 and "0.0 and -0.0" in facts["zero"][4]
    assert facts["zero_spread"] == 0.0
    assert "parameters: 6 tensors equal on 3 ranks" in facts["infinite"]
    assert facts["infinite_spread"] == 0.0
    assert "buffers: 1 tensor, not all equal (not a failure by default" in facts["buffer"]
    assert facts["buffers"][:2] == ["buffers", "scale"] and facts["buffers"][3] == 2.0


def test_the_state_and_the_settings_of_the_optimizer(ranks):
    said = run(
        ranks,
        """
        ddp = DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(ddp.parameters())
        check = lambda: caught(lambda: assert_in_sync(ddp, optimizer))
        say(empty=check())
        if rank == 0:  # the classic: only rank 0 loads the optimizer
            for p in net.parameters():
                p.grad = torch.ones_like(p)
            other = torch.optim.AdamW(net.parameters(), lr=0.0)
            other.step()
            state = other.state_dict()
            state["param_groups"][0]["lr"] = 0.001
            optimizer.load_state_dict(state)
        say(missing=check())
        for p in net.parameters():
            p.grad = torch.ones_like(p)
        if rank == 1:
            optimizer.step()
            with torch.no_grad():
                for p, q in zip(net.parameters(), [t.clone() for t in net.parameters()]):
                    dist.broadcast(p, src=0)
        else:
            for p in net.parameters():
                dist.broadcast(p.data, src=0)
        for state in optimizer.state.values():
            state["exp_avg"].fill_(0.25)
        optimizer.state[net.conv.weight]["exp_avg"] += rank
        say(moment=check())
        optimizer.state[net.conv.weight]["exp_avg"] -= rank
        say(again=check())
        optimizer.param_groups[0]["lr"] *= 1 + rank
        say(rate=check())
        say(only_some=caught(lambda: assert_in_sync(ddp, optimizer if rank else None)))
        """,
    )
    facts = same_on_all(said)
    assert "settings equal on 2 ranks" in facts["empty"]
    part, name, odd, largest, text = facts["missing"]
    assert (part, name, odd, largest) == ("optimizer state", "conv.weight.step", [1], None)
    assert "optimizer state conv.weight.step is missing on rank 1" in text
    assert facts["moment"][:3] == ["optimizer state", "conv.weight.exp_avg", [1]]
    assert facts["moment"][3] == pytest.approx(1.0)
    assert facts["rate"][1:4] == ["param_groups[0].lr", [1], pytest.approx(0.001)]
    assert "by 0.001, in 1 of 1 value: rank 1 against rank 0" in facts["rate"][4]
    assert (
        facts["only_some"][0] == "RuntimeError"
        and "some ranks only: not on rank 0" in facts["only_some"][1]
    )


def test_models_that_are_not_the_same_at_all(ranks):
    said = run(
        ranks,
        """
        check = lambda model: caught(lambda: assert_in_sync(model))
        say(
            number=check(nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + rank)])),
            shape=check(nn.Linear(2, 3 + rank)),
            dtype=check(nn.Linear(2, 2).to(torch.float64 if rank else torch.float32)),
            order=check(nn.ModuleDict({k: nn.Linear(1, 1) for k in ("ab" if rank else "ba")})),
            none=check(nn.Sequential()),
            spread=caught(lambda: spread(nn.Linear(2, 3 + rank))),
        )
        model = nn.Linear(2, 2)
        if rank == 1:
            model = model.to("meta")
        say(meta=check(model), meta_spread=caught(lambda: spread(model)))
        lazy = nn.LazyLinear(2)
        say(lazy=check(lazy))
        if rank == 0:
            lazy(torch.ones(1, 3))
        say(half_lazy=check(lazy))
        """,
        4,
    )
    facts = same_on_all(said)
    # of four different ones, rank 0's is the measure
    assert facts["number"][1:4] == ["1.weight", [0], None]
    assert "1.weight is missing on rank 0" in facts["number"][4]
    assert facts["shape"][1:3] == ["weight", [1, 2, 3]]
    assert "float32 [4, 2] on ranks 1-3 and float32 [3, 2] on rank 0" in facts["shape"][4]
    assert "float32 [2, 2] on rank 0 and float64 [2, 2] on ranks 1-3" in facts["dtype"][4]
    assert "comes in another place on rank 0" in facts["order"][4]
    assert facts["none"] == ""
    assert facts["spread"][1] == "weight"
    assert facts["meta"][0] == "RuntimeError"
    assert "rank 1: TypeError: a tensor on the meta device" in facts["meta"][1]
    assert facts["meta_spread"][0] == "RuntimeError"
    assert "2 tensors equal" in facts["lazy"]
    assert "not initialised on ranks 1-3" in facts["half_lazy"][4]


def test_sharded_parameters_differ_by_design(ranks):
    said = run(
        ranks,
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        mesh = init_device_mesh("cpu", (world,))
        model = nn.Linear(4, 4)
        with torch.no_grad():
            model.weight = nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]))
            model.bias = nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Replicate()]))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            say(mixed=caught(lambda: assert_in_sync(model, optimizer)), spread=spread(model))
            model.bias.to_local().add_(rank)
            say(local=caught(lambda: assert_in_sync(model)))
        from torch.distributed.optim import ZeroRedundancyOptimizer
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
        model(torch.ones(1, 2)).sum().backward()
        zero.step()
        say(zero=caught(lambda: assert_in_sync(model, zero)))
        """,
    )
    facts = same_on_all(said)
    assert "1 tensor equal on 2 ranks; 1 tensor sharded: they differ by design" in facts["mixed"]
    assert facts["local"][1:4] == ["bias", [1], 1.0]
    assert "optimizer state: none to compare; 2 tensors sharded" in facts["zero"]


def test_a_group_of_some_ranks(ranks):
    said = run(
        ranks,
        """
        group = dist.new_group([1, 2])
        with torch.no_grad():
            net.conv.bias.fill_(rank)
        say(
            found=caught(lambda: assert_in_sync(net, group=group)),
            spread=spread(net, group=group),
        )
        """,
        3,
    )
    assert said[0]["found"] == "this rank is not in the group: nothing was compared here"
    assert said[0]["spread"] == 0.0
    assert said[1] == said[2]
    assert said[1]["found"][1:4] == ["conv.bias", [2], 1.0]
    assert said[1]["spread"] == 1.0


def test_one_collective_while_all_is_equal(ranks):
    said = run(
        ranks,
        """
        from torch.profiler import ProfilerActivity, profile
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.randn(2, 1, 4, 4)).sum().backward()
        optimizer.step()
        for p in [*net.parameters(), *net.buffers()]:
            dist.broadcast(p.data, src=0)
        for state in optimizer.state.values():
            for value in state.values():
                dist.broadcast(value, src=0)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            assert_in_sync(net, optimizer)
        say(events={e.key: e.count for e in seen.key_averages() if e.key.startswith("c10d::")})
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            spread(net)
        say(spread={e.key: e.count for e in seen.key_averages() if e.key.startswith("c10d::")})
        """,
    )
    assert said[0] == {"events": {"c10d::allgather_": 1}, "spread": {"c10d::allgather_": 1}}
