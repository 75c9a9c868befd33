"""`make demo` prints the heights as predicted and leaves the figure."""

import re
import subprocess
import sys

from lesson_files import ROOT


def test_the_demo_tells_the_story(tmp_path) -> None:
    figure = tmp_path / "spike.png"
    command = [sys.executable, ROOT / "launch" / "demo.py", "--figure", figure, "--runs", "runs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d)   (\w+).* (\d\.\d{3}) +(\d\.\d{3})$", done.stdout, re.M)
    assert [(int(ranks), order) for ranks, order, *_ in rows] == [
        (1, "wrap"), (2, "wrap"), (4, "wrap"), (8, "wrap"), (4, "load"),
    ]  # fmt: skip
    for _, _, predicted, measured in rows:
        assert abs(float(predicted) - float(measured)) < 0.1
    assert figure.read_bytes().startswith(b"\x89PNG") and str(figure) in done.stdout
