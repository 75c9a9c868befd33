"""Saving and loading on real ranks: together, or not at all."""

import textwrap

import pytest
import torch

NET = """
import warnings
from loadwrap.checkpoints import assert_in_sync, load_checkpoint, save_checkpoint, spread
from loadwrap.checkpoints.files.errors import CheckpointError, SaveFailed
warnings.simplefilter("ignore")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.body(x))))

def caught(call):
    try:
        return str(call())
    except Exception as error:
        return [type(error).__name__, str(error)]
"""

TRAIN = """
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

def build(seed, wrap_first=True):
    torch.manual_seed(seed + rank)
    model = Net()
    if wrap_first:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40)
    data = TensorDataset(torch.arange(96.0).reshape(24, 4) / 96)
    sampler = DistributedSampler(data, seed=5)
    loader = DataLoader(data, 4, sampler=sampler)
    return model, optimizer, scheduler, sampler, loader

def train(ddp, optimizer, scheduler, stream, steps):
    losses = []
    for step in range(steps):
        (x,) = next(stream)
        loss = ddp(x).square().mean() + torch.rand(()) * ddp(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
"""


def run(ranks, body, *arguments, **options):
    return ranks(NET + textwrap.dedent(body), *arguments, **options)


@pytest.mark.parametrize("order", ["load then wrap", "wrap then load"])
def test_a_resume_in_the_middle_of_an_epoch_is_the_run_that_was_not_stopped(ranks, order):
    said = run(
        ranks,
        TRAIN
        + textwrap.dedent(
            f"""
            import itertools
            order = {order!r}
            ddp, optimizer, scheduler, sampler, loader = build(0)
            sampler.set_epoch(3)
            stream = iter(loader)
            train(ddp, optimizer, scheduler, stream, 1)
            saved = save_checkpoint(
                "run", step=1, model=ddp, optimizer=optimizer, scheduler=scheduler,
                sampler=sampler, extra={{"batch": 1}}
            )
            truth = train(ddp, optimizer, scheduler, stream, 2)

            model, optimizer, scheduler, sampler, loader = build(100, order == "wrap then load")
            loaded = load_checkpoint(
                "run", model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler,
                exact=True,
            )
            if order == "load then wrap":
                model = DistributedDataParallel(model)
            stream = itertools.islice(iter(loader), loaded.extra["batch"], None)
            say(
                file=saved.name, step=loaded.step, epoch=[loaded.epoch, sampler.epoch],
                notes=loaded.notes, report=str(assert_in_sync(model, optimizer, buffers=True)),
            )
            # the order of the collectives is the same on all ranks: next() first, then the state
            first = next(stream)
            loaded.restore_rng()
            again = train(model, optimizer, scheduler, itertools.chain([first], stream), 2)
            say(truth=truth, again=again, apart=spread(model))
            """
        ),
    )
    for facts in said:
        assert facts["file"] == "step_00000001.pt"
        assert (facts["step"], facts["epoch"], facts["notes"]) == (1, [3, 3], [])
        assert facts["truth"] == facts["again"]
        assert facts["apart"] == 0.0
    assert said[0]["truth"] != said[1]["truth"]


def test_ranks_agree_on_the_file_or_all_of_them_raise(ranks):
    said = run(
        ranks,
        """
        net = Net()
        say(
            paths=caught(lambda: save_checkpoint(f"rank{rank}.pt", step=1, model=net)),
            steps=caught(lambda: save_checkpoint("a.pt", step=rank, model=net)),
            one_bad=caught(lambda: save_checkpoint(
                "a.pt", step=1, model=net, extra={"x": print} if rank == 2 else None)),
            rank0_bad=caught(lambda: save_checkpoint(
                "a.pt", step=1, model=net, optimizer=object() if rank == 0 else None)),
            folder=sorted(os.listdir()),
        )
        dist.barrier()
        save_checkpoint("a.pt", step=1, model=net)
        say(
            other_model=caught(lambda: load_checkpoint(
                "a.pt", model=nn.Linear(7, 7) if rank == 1 else net)),
            nothing=caught(lambda: load_checkpoint("nothing.pt", model=net)),
            later=str(load_checkpoint("later", model=net, missing_ok=True)),
        )
        """,
        3,
    )
    for facts in said:
        assert facts["paths"][0] == facts["steps"][0] == "SaveFailed"
        assert "rank 1: rank1.pt, step 1; rank 2: rank2.pt, step 1" in facts["paths"][1]
        assert "rank 2: TypeError: extra['x'] is a builtins.builtin_function" in facts["one_bad"][1]
        assert "rank 0: TypeError: optimizer is a object" in facts["rank0_bad"][1]
        assert not any(name.endswith(".pt") for name in facts["folder"])
        assert facts["other_model"][0] == "CheckpointError"
        assert "rank 1: CheckpointError: the model does not fit" in facts["other_model"][1]
        assert "nothing was changed" in facts["other_model"][1]
        assert facts["nothing"] == ["CheckpointError", "there is no file or folder nothing.pt"]
        assert facts["later"].startswith("no checkpoint yet")


@pytest.mark.parametrize("nproc", [2, 4, 8])
def test_all_ranks_told_to_save_to_one_path_write_one_whole_file(ranks, nproc, tmp_path):
    said = run(
        ranks,
        """
        net = nn.Linear(50 + 0 * rank, 40)
        for turn in range(3):
            nn.init.constant_(net.weight, 100 * turn + rank)
            path = save_checkpoint("one.pt", step=turn, model=net, keep=1)
            loaded = load_checkpoint("one.pt", model=net, exact=True)
            assert loaded.step == turn and net.weight.unique().tolist() == [100 * turn]
        say(done=path.name)
        """,
        nproc,
    )
    assert said == [{"done": "one.pt"}] * nproc
    names = sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(("one", ".")))
    assert names == ["one.pt", "one.pt.manifest.json"]
    tree = torch.load(tmp_path / "one.pt", weights_only=True)
    assert len(tree["rng"]) == nproc
    assert len({str(state["torch"].tolist()) for state in tree["rng"]}) == nproc


def test_a_full_disk_raises_on_every_rank_and_the_old_file_is_whole(ranks):
    said = run(
        ranks,
        """
        import resource
        net = nn.Linear(10, 10)
        save_checkpoint("a.pt", step=1, model=net)
        before = open("a.pt", "rb").read()
        if rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
        big = nn.Linear(300, 300)
        say(full=caught(lambda: save_checkpoint("a.pt", step=2, model=big)))
        if rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        dist.barrier()
        say(
            same=open("a.pt", "rb").read() == before,
            step=load_checkpoint("a.pt", model=net).step,
            left=sorted(n for n in os.listdir() if n.startswith((".a", "a"))),
        )
        save_checkpoint("a.pt", step=3, model=big)
        say(after=load_checkpoint("a.pt", model=big).step)
        """,
        4,
    )
    for facts in said:
        assert facts["full"][0] == "SaveFailed"
        assert "rank 0: OSError: [Errno 27] File too large" in facts["full"][1]
        assert (facts["same"], facts["step"], facts["after"]) == (True, 1, 3)
        assert facts["left"] == ["a.pt", "a.pt.manifest.json"]


def test_another_number_of_ranks_goes_on_and_says_what_changes(ranks):
    body = """
        from torch.utils.data import DataLoader, DistributedSampler
        ddp = DistributedDataParallel(Net())
        sampler = DistributedSampler(range(96))
        loader = DataLoader(range(96), 4, sampler=sampler)
    """
    run(
        ranks,
        body
        + """
        sampler.set_epoch(6)
        save_checkpoint("w.pt", step=9, model=ddp, sampler=sampler)
        """,
        2,
    )
    said = run(
        ranks,
        body
        + """
        loaded = load_checkpoint("w.pt", model=ddp, sampler=sampler, loader=loader)
        say(
            notes=loaded.notes, epoch=sampler.epoch, rng=loaded.rng is not None,
            exact=caught(lambda: load_checkpoint("w.pt", model=ddp, exact=True)),
        )
        """,
        4,
    )
    for rank, facts in enumerate(said):
        text = " ".join(facts["notes"])
        assert (
            "saved by 2 ranks, now 4 ranks: each rank sees 24 samples an epoch instead of 48"
            in text
        )
        assert "steps of an epoch become 1/2x as many and the effective batch 2x as large" in text
        assert "an epoch now has 6 steps" in text
        assert facts["epoch"] == 6 and facts["rng"] is (rank < 2)
        assert facts["exact"][0] == "CheckpointError"
        assert "ranks then: 2, now: 4" in facts["exact"][1]


def test_rank_0_decides_and_all_fall_back_together(ranks):
    said = run(
        ranks,
        """
        net = nn.Linear(30, 30)
        for step in (1, 2, 3):
            nn.init.constant_(net.weight, step)
            save_checkpoint(f"f/s{step}.pt", step=step, model=net, keep=2)
        if rank == 0:
            with open("f/s3.pt", "r+b") as file:
                file.truncate(1000)
        dist.barrier()
        loaded = load_checkpoint("f", model=net)
        say(step=loaded.step, weight=net.weight[0, 0].item(), text=str(loaded),
            files=sorted(os.listdir("f")))
        """,
        3,
    )
    for facts in said:
        assert (facts["step"], facts["weight"]) == (2, 2.0)
        assert "passed over: s3.pt (step 3) is torn: it has 1,000 bytes" in facts["text"]
        assert [name for name in facts["files"] if name.endswith(".pt")] == ["s2.pt", "s3.pt"]


def test_a_group_of_some_ranks(ranks):
    said = run(
        ranks,
        """
        group = dist.new_group([1, 2])
        net = nn.Linear(2, 2)
        nn.init.constant_(net.weight, rank)
        save_checkpoint("g.pt", step=5, model=net, group=group)
        dist.barrier()
        loaded = load_checkpoint("g.pt", model=net, group=group)
        say(step=loaded.step, weight=net.weight[0, 0].item(), notes=loaded.notes)
        """,
        3,
    )
    assert [facts["step"] for facts in said] == [0, 5, 5]
    assert [facts["weight"] for facts in said] == [0.0, 1.0, 1.0]
    assert said[0]["notes"] == ["this rank is not in the group that loads"]


def test_sharded_state(ranks):
    said = run(
        ranks,
        """
        from torch.distributed.optim import ZeroRedundancyOptimizer
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1)
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        save_checkpoint("z.pt", step=1, model=net, optimizer=optimizer)
        tree = torch.load("z.pt", weights_only=True)
        say(states=len(tree["optimizer"]["state"]))
        other = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1)
        loaded = load_checkpoint("z.pt", model=net, optimizer=other)
        net(torch.ones(2, 4)).sum().backward()
        other.step()
        say(restored=loaded.restored, apart=spread(net))

        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        mesh = init_device_mesh("cpu", (world,))
        net = nn.Linear(4, 4)
        net.weight = nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]))
        say(dtensor=caught(lambda: save_checkpoint("d.pt", step=1, model=net)))
        """,
    )
    for facts in said:
        assert facts["states"] == 4
        assert facts["restored"] == ["model", "optimizer"] and facts["apart"] == 0.0
        assert facts["dtensor"][0] == "SaveFailed"
        assert "sharded (DTensor)" in facts["dtensor"][1]


def test_without_a_process_group_under_torchrun_it_says_so(ranks, tmp_path):
    from loadwrap import JobFailed, torchrun

    (tmp_path / "bare.py").write_text(
        "import torch\n"
        "from loadwrap.checkpoints import save_checkpoint\n"
        "save_checkpoint('a.pt', step=1, model=torch.nn.Linear(1, 1))\n"
    )
    with pytest.raises(JobFailed) as failed:
        torchrun("bare.py", nproc_per_node=2, live=False, runs="runs").wait()
    assert "started 2 ranks, but there is no process group" in failed.value.traceback
    run = torchrun("bare.py", nproc_per_node=1, live=False, runs="runs").wait()
    assert run.state == "finished" and (tmp_path / "a.pt").exists()


def test_parts_that_only_some_ranks_give_raise_on_all(ranks):
    said = run(
        ranks,
        """
        from loadwrap.checkpoints import audit_resume
        net = DistributedDataParallel(Net())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net(torch.ones(4, 4)).sum().backward()
        optimizer.step()
        save_checkpoint("a.pt", step=1, model=net, optimizer=optimizer)
        mine = None if rank == 1 else optimizer
        report = audit_resume("a.pt", model=net, optimizer=mine, show=False)
        say(
            load=caught(lambda: load_checkpoint("a.pt", model=net, optimizer=mine)),
            sampler=caught(lambda: load_checkpoint(
                "a.pt", model=net, sampler=range(2) if rank else None)),
            sync=caught(lambda: assert_in_sync(net, mine)),
            fault=report.first_fault,
            rates=report.words("next learning rates"),
            state=report.words("optimizer state"),
        )
        """,
    )
    for facts in said:
        assert facts == said[0]
        kind, words = facts["load"]
        assert kind == "CheckpointError"
        assert words.endswith("different things: rank 0: model, optimizer; rank 1: model")
        assert "rank 0: model; rank 1: model, sampler" in facts["sampler"][1]
        assert facts["sync"][1].endswith("optimizer on some ranks only: not on rank 1")
        assert facts["fault"] == "F11 loaded on some ranks only"
        assert facts["rates"] == facts["state"] == "rank 1 was given no optimizer"


def test_a_bad_argument_or_a_pipe_on_one_rank_raises_on_all(ranks):
    said = run(
        ranks,
        """
        net = nn.Linear(2, 2)
        if rank == 0:
            os.mkfifo("pipe.pt")
        dist.barrier()
        say(
            path=caught(lambda: save_checkpoint(
                b"x.pt" if rank else "x.pt", step=1, model=net)),
            keep=caught(lambda: save_checkpoint(
                "x.pt", step=1, keep="2" if rank else 2, model=net)),
            pipe=caught(lambda: save_checkpoint("pipe.pt", step=1, model=net)),
            load=caught(lambda: load_checkpoint("pipe.pt", model=net)),
        )
        """,
    )
    for facts in said:
        assert facts == said[0]
        assert "rank 1: TypeError: path=b'x.pt'" in facts["path"][1]
        assert "rank 1: TypeError: keep='2'" in facts["keep"][1]
        assert facts["pipe"][0] == "SaveFailed" and "is a FIFO" in facts["pipe"][1]
        assert facts["load"][0] == "CheckpointError" and "is a FIFO" in facts["load"][1]


def test_a_part_that_rank_0_was_not_given_is_not_lost_in_silence(ranks):
    said = run(
        ranks,
        """
        net = DistributedDataParallel(Net())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        average = torch.optim.swa_utils.AveragedModel(net.module)
        say(
            lost=caught(lambda: save_checkpoint(
                "a.pt", step=1, model=net, optimizer=None if rank == 0 else optimizer)),
            kept=caught(lambda: save_checkpoint(
                "b.pt", step=1, model=net, ema=average if rank == 0 else None)),
        )
        """,
    )
    for facts in said:
        kind, words = facts["lost"]
        assert kind == "SaveFailed"
        assert "rank 0 was given no optimizer, rank 1 was" in words
        assert facts["kept"] == "b.pt"  # an average kept on rank 0 alone is what others do too
