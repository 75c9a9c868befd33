"""The environment of a job's ranks: the kernel's, without what is the kernel's own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .errors import LaunchError


def environment_of(
    env: Mapping[str, object] | None, options: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the ranks' environment, and what of it a terminal would have to set as well.

    Args:
        env: What the caller adds.
        options: torchrun's options.

    Raises:
        LaunchError: A variable cannot have this name or value.
    """
    extra = {str(name): str(value) for name, value in (env or {}).items()}
    for name, value in extra.items():
        if not name or "=" in name or "\0" in name + value:
            raise LaunchError(
                f"env has {name!r}: {value!r}, which no environment can hold (a name without = "
                "and a value without null characters)."
            )
    environment = {name: value for name, value in os.environ.items() if not _kernels_own(name)}
    environment.update(extra)
    added = dict(extra)
    if "OMP_NUM_THREADS" not in environment:
        environment["OMP_NUM_THREADS"] = "1"
        if options.get("nproc_per_node") == "1":  # for more ranks torchrun sets it by itself
            added["OMP_NUM_THREADS"] = "1"
    if str(options.get("max_restarts", "0")) != "0":
        # As torch ships, the agent's store outlives an attempt and the next one hangs on it.
        for place in (environment, added):
            place.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    return environment, added


def _kernels_own(name: str) -> bool:
    """Tells whether a variable is about the notebook's kernel or test, not about the job."""
    if name == "MPLBACKEND":  # the kernel's draws into the notebook; a rank has none
        return os.environ[name].startswith("module://")
    return name.startswith(("JPY_", "PYDEVD_", "PYTEST_")) or name in {
        *("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_WORLD_SIZE"),
    }
