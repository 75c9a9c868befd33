"""Explains, saves, loads and audits checkpoints. Knows tensors, not jobs.

The names below are imported at their first use: ``assert_in_sync`` in a rank must not pay for
the doctor's readers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .audit.audit import AuditReport, audit_resume
    from .files.load import load_checkpoint
    from .files.save import save_checkpoint
    from .keys.explain import explain_keys
    from .keys.report import KeyReport
    from .replicas.fingerprint import fingerprint
    from .replicas.insync import ReplicasOutOfSync, assert_in_sync
    from .replicas.spread import spread

__all__ = [
    "AuditReport",
    "KeyReport",
    "ReplicasOutOfSync",
    "assert_in_sync",
    "audit_resume",
    "explain_keys",
    "fingerprint",
    "load_checkpoint",
    "save_checkpoint",
    "spread",
]

_HOME = {
    "AuditReport": "audit.audit",
    "KeyReport": "keys.report",
    "ReplicasOutOfSync": "replicas.insync",
    "assert_in_sync": "replicas.insync",
    "audit_resume": "audit.audit",
    "explain_keys": "keys.explain",
    "fingerprint": "replicas.fingerprint",
    "load_checkpoint": "files.load",
    "save_checkpoint": "files.save",
    "spread": "replicas.spread",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
