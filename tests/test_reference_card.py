"""The lines of the reference card run as they are printed, under a bare torchrun of two ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lesson_files import ROOT
from loadwrap.checkpoints.audit import findings

CARD = (ROOT / "notebooks" / "reference_card.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", CARD, re.DOTALL)


def block(word: str) -> str:
    """The one block of the card that has this word."""
    (found,) = [code for code in BLOCKS if word in code]
    return found


SCRIPT = """
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from loadwrap.checkpoints import assert_in_sync, load_checkpoint, save_checkpoint


def save(path, ddp, optimizer, scheduler, epoch, batch):
{save}

def two_calls(model, optimizer, scheduler, sampler, step):
{library}
    assert loaded.step == step


def train(mode, told):
    path, new_lr = "last.pt", 0.005
    torch.set_num_threads(1)
    torch.manual_seed(11 + dist.get_rank() + 100 * (mode != "whole"))
    inside = [nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2)]
    model = nn.Sequential(*inside)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = LambdaLR(optimizer, lambda step: 1 / (1 + step / 10))
    numbers = torch.Generator().manual_seed(3)
    data = TensorDataset(torch.randn(96, 8, generator=numbers))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    epoch, batch, batches = 0, 0, None
    if mode == "whole":
        ddp = DistributedDataParallel(model)
    else:
{resume}
        epoch, batch = saved["epoch"], saved["batch"]
    if mode == "rate":
{rate}
    while epoch < 3:
        if batches is None:
            sampler.set_epoch(epoch)
            batches = iter(loader)
        for (x,) in batches:
            if mode == "whole" and (epoch, batch) == (1, 4):
                save(path, ddp, optimizer, scheduler, epoch, batch)
            loss = ddp(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen = epoch, batch, loss.item().hex(), optimizer.param_groups[0]["lr"]
            print(*seen, file=told)  # a file for each rank: on one stdout lines are torn
            scheduler.step()
            batch += 1
        epoch, batch, batches = epoch + 1, 0, None
    if mode == "whole":
        two_calls(model, optimizer, scheduler, sampler, 18)


dist.init_process_group("gloo")
with open(f"{{sys.argv[1]}}-{{dist.get_rank()}}.txt", "w") as told:
    train(sys.argv[1], told)
dist.barrier()
dist.destroy_process_group()
"""


Steps = dict[tuple[int, int, int], tuple[str, float]]
"""{(rank, epoch, batch): (loss, learning rate)}."""


def run(folder: Path, mode: str) -> Steps:
    """Runs the script on two ranks."""
    torchrun = Path(sys.executable).with_name("torchrun")
    command = [torchrun, "--standalone", "--nproc-per-node", "2", "job.py", mode]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for rank in range(2):
        for line in (folder / f"{mode}-{rank}.txt").read_text().splitlines():
            epoch, batch, loss, rate = line.split()
            found[rank, int(epoch), int(batch)] = loss, float(rate)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    code = SCRIPT.format(
        save=textwrap.indent(block("all_gather_object"), " " * 4),
        library=textwrap.indent(block("load_checkpoint"), " " * 4),
        resume=textwrap.indent(block("set_rng_state"), " " * 8),
        rate=textwrap.indent(block("base_lrs"), " " * 8),
    )
    (folder / "job.py").write_text(code)
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> Steps:
    """The run that was never stopped, which saved in the middle of an epoch."""
    found = run(folder, "whole")
    assert len(found) == 2 * 3 * 6
    return found


def test_the_resume_of_the_card_equals_the_uninterrupted_run(folder: Path, whole: Steps) -> None:
    resumed = run(folder, "resume")
    assert min((epoch, batch) for _, epoch, batch in resumed) == (1, 4)
    assert resumed == {step: seen for step, seen in whole.items() if step in resumed}
    assert len(resumed) == 2 * 8


def test_another_rate_is_the_rate_from_there_on(folder: Path, whole: Steps) -> None:
    halved = run(folder, "rate")
    assert all(rate == pytest.approx(whole[step][1] / 2) for step, (_, rate) in halved.items())
    first = [(rank, 1, 4) for rank in range(2)]
    assert [halved[step][0] for step in first] == [whole[step][0] for step in first]


def test_the_cure_of_the_prefix_fits_and_destroys_nothing() -> None:
    import torch
    from torch import nn
    from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_module, self.module = nn.Linear(3, 2), nn.BatchNorm1d(2)

    cure = compile(block("consume_prefix_in_state_dict_if_present("), "card", "exec")
    for levels in range(3):
        wrapped: nn.Module = Net()
        for _ in range(levels):
            wrapped = nn.DataParallel(wrapped)
        model = Net()
        names = {
            "saved": {"model": wrapped.state_dict()}, "model": model,
            "consume_prefix_in_state_dict_if_present": consume_prefix_in_state_dict_if_present,
        }  # fmt: skip
        exec(cure, names)
        model.load_state_dict(names["weights"])
        for saved, loaded in zip(wrapped.parameters(), model.parameters(), strict=True):
            assert torch.equal(saved, loaded)
    for misfit in ({}, {"module.other": torch.ones(1)}):  # and it ends: all() of nothing is true
        names["saved"] = {"model": misfit}
        with pytest.raises(AssertionError):
            exec(cure, names)


@pytest.mark.parametrize("names_in_the_file", [[], ["module.0.weight", "step"], ["module."]])
def test_the_cure_of_the_prefix_ends_where_it_cannot_help(names_in_the_file: list[str]) -> None:
    import torch
    from torch import nn
    from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

    cure = compile(block("consume_prefix_in_state_dict_if_present("), "card", "exec")
    names = {
        "saved": {"model": dict.fromkeys(names_in_the_file, torch.zeros(1))},
        "model": nn.Linear(3, 2),
        "consume_prefix_in_state_dict_if_present": consume_prefix_in_state_dict_if_present,
    }
    with pytest.raises(AssertionError):
        exec(cure, names)


def test_the_formula_and_the_lessons_named_are_those_of_the_course() -> None:
    assert r"\frac{L_\text{checkpoint} + (W-1)\,L_\text{untrained}}{W}" in CARD
    rows = re.findall(r"^\| .* \| ([\d, ]+) \|$", CARD, re.MULTILINE)
    named = {number for row in rows for number in row.split(", ")}
    written = {path.name[:2] for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    assert len(rows) == 10 and named <= written


def test_the_questions_come_in_the_order_of_the_audit() -> None:
    means = {
        "learning rates": findings.RATES,
        "tensors really loaded": findings.TENSORS,
        "position in the data": findings.POSITION,
        "ranks": findings.SPREAD,
        "optimizer's state": findings.OPTIMIZER,
        "moving average": findings.EMA,
        "buffers": findings.BUFFERS,
        "gradient scaler": findings.SCALER,
        "which file": findings.FILE,
    }
    questions = re.findall(r"^\d\. .*?\*\*(.+?)\*\*", CARD, re.MULTILINE)
    # The random state, which it asks for last, is beyond what shows in a loss.
    assert [means[question] for question in questions] == list(findings.CHECKS[:-1])
