"""tools/make_venv.sh: done once, recovers from an interruption, one sentence for what is missing.

That it makes a whole environment is shown by every `make test` in a fresh clone.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Nothing listens there: what a machine without a network sees.
NO_NETWORK = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_FIND_LINKS": "",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "1",
}

SetUp = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the files that make the environment, in a folder with spaces in its name."""
    folder = tmp_path / "load then wrap"
    (folder / "tools").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "tools/make_venv.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """The only folder on the PATH: what the script needs, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for (
        name
    ) in "awk cat cmp cp df dirname grep ln mkdir mv readlink rm sed sleep tail tee uname".split():
        real = shutil.which(name)
        assert real
        (folder / name).symlink_to(real)
    return folder


@pytest.fixture
def set_up(project: Path, bin_folder: Path) -> SetUp:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(project / "tools" / "make_venv.sh")],
            env={"PATH": str(bin_folder), **NO_NETWORK, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_python(path: Path, version: str, without: str = "nothing") -> Path:
    """This Python, which takes itself for another version, or lacks a module."""
    prelude = (
        "import sys\n"
        "version = [*map(int, sys.argv[1].split('.')), 0]\n"
        "sys.version_info = tuple(version)\n"
        "sys.modules[sys.argv[2]] = None\n"
        "exec(sys.argv[4] if sys.argv[3] == '-c' else sys.stdin.read())"
    )
    return program(path, f'exec "{sys.executable}" -c "{prelude}" {version} {without} "$@"')


def sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The one line of the error."""
    assert result.returncode == 1, result.stdout + result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("Set-up stopped: ")
    return line


def test_no_python(set_up: SetUp) -> None:
    assert "no Python was found; install Python 3.11 or newer" in sentence(set_up())


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3.9", "python3 is Python 3.9, and 3.11 or newer is needed"),
        ("3.15", "python3 is Python 3.15, newer than those PyTorch is known to be built for"),
    ],
)
def test_a_python_of_another_age(set_up: SetUp, bin_folder: Path, version: str, said: str) -> None:
    fake_python(bin_folder / "python3", version)
    assert said in sentence(set_up())


def test_no_venv_module(set_up: SetUp, bin_folder: Path) -> None:
    fake_python(bin_folder / "python3", "3.9")
    fake_python(bin_folder / "python3.12", "3.12", without="ensurepip")
    said = sentence(set_up())
    assert "python3.12 is Python 3.12 without its venv module" in said
    assert "apt install python3.12-venv" in said


def test_a_name_on_the_path_that_does_not_run_is_passed_over(
    set_up: SetUp, bin_folder: Path
) -> None:
    program(bin_folder / "python3.11", "echo 'no such version' >&2; exit 127")
    fake_python(bin_folder / "python3", "3.9")
    assert "python3 is Python 3.9" in sentence(set_up())


@pytest.mark.parametrize("name", ["no-such-python", "/dev/null"])
def test_a_wrong_PYTHON_is_named(set_up: SetUp, bin_folder: Path, name: str) -> None:
    (bin_folder / "python3").symlink_to(sys.executable)
    assert f"PYTHON={name} does not run as a Python" in sentence(set_up(PYTHON=name))


def test_too_little_disk(set_up: SetUp, bin_folder: Path, project: Path) -> None:
    (bin_folder / "df").unlink()
    header = "Filesystem 1024-blocks Used Available Capacity Mounted on"
    program(bin_folder / "df", f"echo '{header}'; echo '/dev/a b 9 8 512000 99% /my disk'")
    said = sentence(set_up(PYTHON=sys.executable))
    assert "only 512 MB are free on this disk" in said
    assert not (project / ".venv").exists()


def test_a_venv_of_the_users_own_is_left_alone(set_up: SetUp, project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "mine").touch()
    assert "this project did not make" in sentence(set_up(PYTHON=sys.executable))
    assert (project / ".venv" / "mine").exists()


def test_no_network_and_then_an_environment_that_is_up_to_date(
    set_up: SetUp, project: Path
) -> None:
    venv = project / ".venv"
    assert "check the network" in sentence(set_up(PYTHON=sys.executable))
    half_made = venv / "half-made"
    half_made.touch()
    assert not (project / ".venv.lock").is_symlink()

    # As after a whole set-up: nothing is done, without a network, a Python or a word.
    made_from = venv / "made-from"
    made_from.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(project / name, made_from / name)
    (made_from / "where").write_text(f"{VERSION} {project}\n")
    for environment in ({}, {"PYTHON": sys.executable}):
        result = set_up(**environment)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert half_made.exists()

    # A file that was touched is the same file; one that was changed is not.
    os.utime(project / "constraints.txt")
    assert set_up().returncode == 0
    with open(project / "constraints.txt", "a") as file:
        file.write("# changed\n")
    result = set_up()
    assert "Updating .venv" in result.stdout
    sentence(result)

    # That update failed half way: the next call begins from nothing.
    result = set_up(PYTHON=sys.executable)
    assert f"Making .venv with Python {VERSION}" in result.stdout
    assert not half_made.exists()


def test_offline_pip_says_what_it_lacks(set_up: SetUp) -> None:
    said = sentence(set_up(PYTHON=sys.executable, PIP_NO_INDEX="1"))
    assert "pip found no setuptools==" in said
    assert "connect the machine" in said


def test_an_interrupted_set_up_ends_and_leaves_no_lock(project: Path, bin_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_index:
        silent_index.settimeout(60)
        port = silent_index.getsockname()[1]
        set_up = subprocess.Popen(
            ["/bin/sh", str(project / "tools" / "make_venv.sh")],
            env={
                "PATH": str(bin_folder),
                **NO_NETWORK,
                "PYTHON": sys.executable,
                "PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple",
            },
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with silent_index.accept()[0]:  # pip waits for an answer
            os.killpg(set_up.pid, signal.SIGINT)
            assert set_up.wait(timeout=30) != 0
    assert not (project / ".venv.lock").is_symlink()
    assert not (project / ".venv" / "made-from").exists()


def test_a_lock_left_by_a_killed_set_up_is_taken_over(set_up: SetUp, project: Path) -> None:
    gone = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, text=True)
    (project / ".venv.lock").symlink_to(gone.stdout.strip())
    assert "no Python was found" in sentence(set_up())
