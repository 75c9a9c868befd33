"""Two ranks: what fails on one of them is said on both, and nobody waits for ever."""

import pytest

from loadwrap import JobFailed, torchrun


def test_a_file_that_one_rank_cannot_read_raises_on_all(ranks):
    said = ranks("""
        from loadwrap.checkpoints import audit_resume
        from loadwrap.checkpoints.audit.audit import AuditError
        net = nn.Linear(2, 2)
        if rank == 0:
            torch.save({"model": net.state_dict()}, "there.pt")
        dist.barrier()
        for name, path in (("one", "there.pt" if rank == 0 else "gone.pt"), ("both", "gone.pt")):
            try:
                audit_resume(path, model=net)
            except AuditError as error:
                say(**{name: str(error)})
    """)
    for facts in said:
        assert facts["one"] == "rank 1: gone.pt: no such file (the other ranks could)"
        assert facts["both"] == "gone.pt: no such file"


def test_an_object_that_fails_on_one_rank_is_a_verdict_on_all(ranks):
    said = ranks("""
        from loadwrap.checkpoints import audit_resume
        class Scaler:
            def state_dict(self):
                if rank == 1:
                    raise OSError("no such device")
                return {}
        class Model(nn.Linear):
            def named_modules(self, *arguments, **options):
                if rank == 1 and broken:
                    raise OSError("a model of another kind")
                return super().named_modules(*arguments, **options)
        broken = False
        net = DistributedDataParallel(Model(2, 2))
        report = audit_resume({"model": net.state_dict()}, model=net, scaler=Scaler(), show=False)
        say(scaler=report.verdict("scaler"), rows=report.rows)
        broken = True
        try:
            audit_resume({"model": net.state_dict()}, model=net, show=False)
        except RuntimeError as error:
            say(error=str(error))
    """)
    for facts in said:
        assert facts["scaler"] == "not checked"
        assert facts["rows"] == said[0]["rows"]
        assert "rank 1: OSError: a model of another kind" in facts["error"]


def test_models_of_different_kinds_are_said_and_do_not_hang(ranks):
    said = ranks("""
        from loadwrap.checkpoints import audit_resume
        net = nn.Linear(2, 2 + rank)
        report = audit_resume({"model": net.state_dict()}, model=net, show=False)
        say(fault=report.first_fault)
        net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + rank)])
        report = audit_resume({"model": net.state_dict()}, model=net, show=False)
        say(other=report.first_fault)
    """)
    for facts in said:
        assert facts["fault"] == facts["other"] == "F12 DDP bypassed"


def test_without_a_process_group_under_torchrun_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(
        "from torch import nn\nfrom loadwrap.checkpoints import audit_resume\n"
        "audit_resume({}, model=nn.Linear(2, 2))\n"
    )
    with pytest.raises(JobFailed, match="there is no process group"):
        torchrun("script.py", nproc_per_node=2, live=False, runs=tmp_path / "runs").wait()


def test_a_group_of_some_ranks(ranks):
    said = ranks(
        """
        from loadwrap.checkpoints import audit_resume
        pair = dist.new_group([1, 2])
        net = nn.Linear(2, 2)
        if rank:
            for parameter in net.parameters():
                dist.broadcast(parameter.data, 1, group=pair)
        report = audit_resume({"model": net.state_dict()}, model=net, group=pair, show=False)
        say(fault=report.first_fault, spread=report.rows and report.words("spread across ranks"))
        """,
        3,
    )
    assert [facts["fault"] for facts in said] == [None] * 3
    assert said[0]["spread"] == [] and "2 ranks" in said[1]["spread"]


def test_the_table_is_printed_by_rank_0_alone(ranks, tmp_path):
    ranks("""
        from loadwrap.checkpoints import audit_resume
        net = DistributedDataParallel(nn.Linear(2, 2))
        audit_resume({"model": net.state_dict()}, model=net)
    """)
    logs = [path.read_text() for path in (tmp_path / "runs").rglob("stdout.log")]
    assert sorted("no fault found" in log for log in logs) == [False, True]
