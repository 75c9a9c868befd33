"""Builds the site for tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def build(root: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Runs a project's own build of its site, into a folder that gets `site` and its source."""
    command = [sys.executable, str(root / "tools" / "build_site.py"), "--into", str(into)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)
