"""A reader beside a writer, files that others remove, and what is no file at all."""

import os
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from loadwrap.checkpoints import audit_resume, load_checkpoint, save_checkpoint
from loadwrap.checkpoints.audit.audit import AuditError
from loadwrap.checkpoints.files import choose, together
from loadwrap.checkpoints.files.errors import CheckpointError, SaveFailed


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


WRITER = """
import sys, torch
from loadwrap.checkpoints import save_checkpoint
net, step = torch.nn.Linear(4, 4), 0
print("ready", flush=True)
while True:
    step += 1
    save_checkpoint(sys.argv[1], step=step, model=net, extra={"pad": torch.zeros(step % 7)})
"""


def test_a_reader_of_a_file_that_is_written_again_and_again_finds_it_whole(tmp_path):
    place, net = tmp_path / "last.pt", nn.Linear(4, 4)
    save_checkpoint(place, step=0, model=net)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "ready\n"
        for _ in range(40):
            load_checkpoint(place, model=net)
            report = audit_resume(place, model=nn.Linear(4, 4), show=False)
            assert report.verdict("which file") == "ok", report
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def test_a_file_replaced_between_two_readings_is_not_called_damaged(tmp_path, monkeypatch):
    place, net, real = tmp_path / "last.pt", nn.Linear(4, 4), choose.stamp_of
    save_checkpoint(place, step=1, model=net)
    replaced = []

    def stamp_of(path):
        stamp = real(path)
        if not replaced:
            replaced.append(True)
            save_checkpoint(place, step=2, model=nn.Linear(4, 4))
        return stamp

    monkeypatch.setattr(choose, "stamp_of", stamp_of)
    assert load_checkpoint(place, model=net).step == 2


def test_a_file_that_is_removed_while_it_is_read_is_passed_over(tmp_path, monkeypatch):
    net, real = nn.Linear(4, 4), choose.stamp_of
    for step in (1, 2):
        save_checkpoint(tmp_path, step=step, model=net)

    def stamp_of(path):
        if path.name == "step_00000002.pt":
            path.unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(choose, "stamp_of", stamp_of)
    loaded = load_checkpoint(tmp_path, model=net)
    assert (loaded.step, loaded.notes) == (1, ())


def test_only_a_checkpoint_of_the_same_run_is_named_instead(tmp_path):
    net = nn.Linear(40, 40)
    torch.save({"other": 1}, tmp_path / "unrelated_9.pt")
    torch.save({"other": 1}, tmp_path / "step_00000009.pt")  # without a manifest
    save_checkpoint(tmp_path / "teacher_7.pt", step=7, model=net)
    place = save_checkpoint(tmp_path, step=3, model=net)
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError) as said:
        load_checkpoint(place, model=net)
    assert "is torn" in str(said.value) and "Complete is" not in str(said.value)
    save_checkpoint(tmp_path, step=2, model=net)
    with pytest.raises(CheckpointError, match=r"Complete is step_00000002.pt \(step 2\)$"):
        load_checkpoint(place, model=net)
    place.with_name(place.name + ".manifest.json").unlink()
    with pytest.raises(CheckpointError, match="is cut") as said:
        load_checkpoint(place, model=net)
    assert "Errno" not in str(said.value)


def test_a_pipe_is_neither_replaced_nor_waited_for(tmp_path):
    pipe, net = tmp_path / "pipe.pt", nn.Linear(2, 2)
    os.mkfifo(pipe)
    with pytest.raises(SaveFailed, match=r"pipe.pt is a FIFO \(named pipe\), not a regular file"):
        save_checkpoint(pipe, step=1, model=net)
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe.pt"]
    with pytest.raises(CheckpointError, match="is a FIFO"):
        load_checkpoint(pipe, model=net)
    with pytest.raises(AuditError, match="is a FIFO"):
        audit_resume(pipe, model=net)
    link = tmp_path / "link.pt"
    link.symlink_to(pipe)
    with pytest.raises(SaveFailed, match="is a FIFO"):
        save_checkpoint(link, step=1, model=net)


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "disk").mkdir()
    link, net = tmp_path / "last.pt", nn.Linear(2, 2)
    link.symlink_to(tmp_path / "disk" / "real.pt")
    for step in (1, 2):
        assert save_checkpoint(link, step=step, model=net).name == "real.pt"
    assert link.is_symlink() and not (tmp_path / "disk" / "real.pt").is_symlink()
    assert load_checkpoint(link, model=net).step == 2


def test_a_file_removed_between_the_choice_and_the_reading_gives_the_next_one(
    tmp_path, monkeypatch
):
    net, real = nn.Linear(4, 4), together.choose
    for step in (1, 2):
        save_checkpoint(tmp_path, step=step, model=net)

    def choosing(place):
        choice = real(place)
        if choice.path.name == "step_00000002.pt":
            choice.path.unlink()
        return choice

    monkeypatch.setattr(together, "choose", choosing)
    assert load_checkpoint(tmp_path, model=net).step == 1
