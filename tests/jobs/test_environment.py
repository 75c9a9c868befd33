"""What changes between two jobs reaches the ranks, warm as cold; a host serves one setting."""

from pathlib import Path

import pytest

from loadwrap import JobFailed, torchrun
from loadwrap.jobs import client

_ECHO = """
    import os, sys
    print([os.environ.get(name) for name in sys.argv[1:]], os.getcwd())
"""


def echo(write, *names, **options):
    run = torchrun(Path(write.folder, write(_ECHO)), *names, live=False, **options)
    return run.wait().stdout(0).strip(), client._host.pid


def test_ordinary_variables_and_folders_arrive_and_keep_the_host(write, monkeypatch, tmp_path):
    told, host = echo(write, "MINE", "OTHER")
    assert told == f"[None, None] {tmp_path}"
    monkeypatch.setenv("MINE", "1")
    told, same = echo(write, "MINE", "OTHER", env={"OTHER": 2})
    assert (told, same) == (f"['1', '2'] {tmp_path}", host)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    told, same = echo(write, "MINE", env={"MINE": "mine ü"})
    assert (told, same) == (f"['mine ü'] {tmp_path}/elsewhere", host)
    monkeypatch.delenv("MINE")
    told, same = echo(write, "MINE")
    assert (told, same) == (f"[None] {tmp_path}/elsewhere", host)


def test_the_variables_of_the_kernel_stay_there(write, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    told, _ = echo(write, "MPLBACKEND", "JPY_PARENT_PID", "PYTEST_CURRENT_TEST")
    assert told.startswith("[None, None, None]")
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert echo(write, "MPLBACKEND")[0].startswith("['agg']")


_THREADS = """
    import os, numpy, torch
    print(os.environ.get("OMP_NUM_THREADS"), torch.get_num_threads())
    print((numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum(), torch.ones(10**6).sum())
"""


def test_threads_are_read_at_load_so_the_job_gets_a_host_of_its_own(launch, write):
    assert launch(_THREADS).stdout(0).startswith("1 1\n")
    first = client._host
    # A job of the first host goes on while the second is started, and the first then leaves.
    write("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)", "waiting.py")
    waiting = torchrun("waiting.py", live=False)
    changed = launch(_THREADS, env={"OMP_NUM_THREADS": 2})
    assert changed.stdout(0) == "2 2\n27000000.0 tensor(1000000.)\n"
    assert changed.stdout(0) == launch(_THREADS, env={"OMP_NUM_THREADS": 2}, warm=False).stdout(0)
    assert changed.command.startswith("OMP_NUM_THREADS=2 torchrun ")
    assert client._host.pid != first.pid
    assert (waiting.state, first.lost) == ("running", False)
    Path("go").touch()
    assert waiting.wait().state == "finished"
    assert first.lost and first._process.poll() is not None


def test_an_instruction_set_is_read_at_load(launch):
    text = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    host = client._host
    plainest = launch(text, env={"ATEN_CPU_CAPABILITY": "default"}).stdout(1)
    assert plainest == "DEFAULT\n"
    assert client._host is not host
    assert host is None or (host.lost and host._process.poll() is not None)


def test_very_much_environment_and_very_long_arguments(launch, warm):
    run = launch(
        """
        import os, sys
        print(len(os.environ["LARGE0"]), len(os.environ["LARGE2"]), len(sys.argv), len(sys.argv[1]))
        """,
        "x" * 100_000,
        *range(2_000),
        env={f"LARGE{number}": "y" * 100_000 for number in range(3)},
        warm=warm,
    )
    assert run.stdout(1) == "100000 100000 2002 100000\n"


def test_paths_with_spaces_and_letters_of_any_script(write, warm, tmp_path, monkeypatch):
    folder = tmp_path / "meine Läufe 実験"
    folder.mkdir()
    monkeypatch.chdir(folder)
    name = "mein skript ß.py"
    (folder / name).write_text("import sys\nprint(__file__, sys.argv)\n", encoding="utf-8")
    run = torchrun(name, "a b", "--ö", "", nproc_per_node=2, live=False, warm=warm).wait()
    assert run.stdout(1) == f"{folder / name} {[name, 'a b', '--ö', '']}\n"
    assert run.directory.parent == folder / "runs"
    assert run.command.endswith(f"'{name}' 'a b' '--ö' ''")


def test_a_job_whose_torch_cannot_be_loaded_says_why(write, monkeypatch, tmp_path):
    write("raise RuntimeError('a broken library')", "broken/torch/__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    monkeypatch.setenv("TZ", "UTC")  # a new host
    with pytest.raises(JobFailed) as failed:
        torchrun(write("print(1)"), live=False).wait()
    assert "a broken library" in str(failed.value)
    assert len(str(failed.value).splitlines()) == 2
