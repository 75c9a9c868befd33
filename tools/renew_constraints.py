"""Write constraints.txt anew: the newest versions within pyproject.toml's ranges.

Run it with .venv/bin/python, then `make test`. It asks pip for the oldest Python that the project
allows, since a version that needs a newer one could not be installed there.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The exact versions that CI tests, on Linux. pyproject.toml names what is needed; this file only
# says which version, also of what those packages need in turn.
# To renew: .venv/bin/python tools/renew_constraints.py
"""
# The GPU libraries that PyTorch itself pins, where its build has them.
PINNED_BY_TORCH = re.compile(r"nvidia-|cuda-|triton")


def requirements() -> tuple[str, list[str]]:
    """Return the oldest Python allowed, and every requirement that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        named += extra
    return project["project"]["requires-python"].removeprefix(">=") + ".0", named


def resolve(python: str, named: list[str]) -> dict[str, str]:
    """Return the version of every package that pip would install; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--dry-run", "--quiet", "--ignore-installed", "--report", str(report)]
        options += ["--target", folder, "--only-binary", ":all:", "--python-version", python]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *named], check=True)
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    versions = {}
    for install in installs:
        name = re.sub(r"[-_.]+", "-", install["metadata"]["name"]).lower()
        if not PINNED_BY_TORCH.match(name):
            versions[name] = install["metadata"]["version"].partition("+")[0]
    return versions


def main() -> None:
    versions = resolve(*requirements())
    lines = [f"{name}=={versions[name]}\n" for name in sorted(versions)]
    (ROOT / "constraints.txt").write_text(HEADER + "".join(lines), encoding="utf-8")
    print(f"constraints.txt has {len(lines)} packages.")


if __name__ == "__main__":
    main()
