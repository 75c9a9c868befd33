"""`make lab`: the first lesson, on this machine only, whatever Jupyter the user has configured."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tools" / "lab.py"


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("port", ["eighty", "0", "-1", "70000"])
def test_a_wrong_port_is_named(port: str) -> None:
    result = subprocess.run(
        [sys.executable, LAB], env={**os.environ, "PORT": port}, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"PORT={port} is not a port number")


def test_it_opens_beside_a_busy_port_and_a_users_own_jupyter(
    tmp_path: Path, busy_port: int
) -> None:
    config = tmp_path / ".jupyter"
    config.mkdir()
    (config / "jupyter_server_config.py").write_text(
        'c.ServerApp.ip = "0.0.0.0"\nc.ServerApp.root_dir = "/nowhere"\n'
    )
    kernel = tmp_path / "data" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        '{"argv": ["/nowhere"], "display_name": "theirs", "language": "python"}'
    )
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "JUPYTER_PATH": str(tmp_path / "data"),
        "PORT": str(busy_port),
        "BROWSER": "true",
    }
    lab = subprocess.Popen(
        [sys.executable, LAB],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert lab.stdout
        first_line = lab.stdout.readline()
        match = re.fullmatch(
            rf"Port {busy_port} is in use: JupyterLab takes the next free one, (\d+)\.\n",
            first_line,
        )
        assert match, first_line
        found = None
        while not found:
            line = lab.stdout.readline()
            assert line, "JupyterLab ended before it printed its address"
            found = re.search(r"(http://\S+?)(/lab/tree/notebooks/00_\S+)\?token=(\w+)", line)
        server, lesson, token = found.groups()
        assert server == f"http://127.0.0.1:{match[1]}"

        def get(path: str) -> str:
            request = urllib.request.Request(
                server + path, headers={"Authorization": f"token {token}"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
                return answer.read().decode()

        page = get(lesson)
        assert '"@jupyterlab/apputils-extension:announcements"' in page  # as a disabled extension
        names = {entry["name"] for entry in json.loads(get("/api/contents"))["content"]}
        assert {"notebooks", "launch"} <= names
        kernels = json.loads(get("/api/kernelspecs"))["kernelspecs"]
        assert kernels["python3"]["spec"]["display_name"] == "Python 3 (ipykernel)"
    finally:
        lab.terminate()
        lab.communicate(timeout=30)
