"""Open JupyterLab on the first lesson, on this machine only, from the project's own environment.

Used by `make lab`; PORT names the first port to try.
"""

import os
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LESSON = "notebooks/00_run_your_first_distributed_job.ipynb"
HOST = "127.0.0.1"
PORTS_TO_TRY = 100


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server itself will do: a port in TIME_WAIT is free, one with a listener is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose_port(wanted: str) -> int:
    """Return `wanted`, or the next free port after it, and say so.

    Raises:
        SystemExit: `wanted` is no port number, or it and the next ones are all in use.
    """
    if not wanted.isdecimal() or not 1 <= int(wanted) <= 65535:
        sys.exit(f"PORT={wanted} is not a port number; choose one from 1024 to 65535.")
    first = int(wanted)
    for port in range(first, min(first + PORTS_TO_TRY, 65536)):
        if is_free(port):
            if port != first:
                print(f"Port {first} is in use: JupyterLab takes the next free one, {port}.")
            return port
    sys.exit(
        f"Port {first} and the {PORTS_TO_TRY - 1} after it are in use or not allowed; "
        "name another: make lab PORT=9000."
    )


def environment() -> dict[str, str]:
    """Return this process's environment with Jupyter's folders inside .venv.

    The user's own server configuration could move the root folder or load extensions that are
    not here, and the user's own workspace would open other projects' tabs. The user's settings
    (theme, shortcuts) stay.
    """
    env = dict(os.environ)
    config = env.get("JUPYTER_CONFIG_DIR") or str(Path.home() / ".jupyter")
    env.setdefault("JUPYTERLAB_SETTINGS_DIR", str(Path(config, "lab", "user-settings")))
    own = Path(sys.prefix, "etc", "jupyter", "lab")
    env["JUPYTER_CONFIG_DIR"] = str(own)
    env["JUPYTERLAB_WORKSPACES_DIR"] = str(own / "workspaces")
    env["JUPYTER_PREFER_ENV_PATH"] = "1"
    for name in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "JUPYTER_NO_CONFIG"):
        env.pop(name, None)
    return env


def main() -> None:
    if not (ROOT / LESSON).is_file():
        sys.exit(f"{LESSON} is missing from this copy of the project; get it back with git.")
    port = choose_port(os.environ.get("PORT") or "8888")
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{LESSON}",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
        "--MultiKernelManager.default_kernel_name=python3",
        "--log-level=WARN",  # what stays is the address to open
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # A container's root has no browser; the address to open is printed.
        command += ["--allow-root", "--no-browser"]
    print("Starting JupyterLab on the first lesson; Ctrl-C here stops it.", flush=True)
    os.execve(sys.executable, command, environment())


if __name__ == "__main__":
    main()
