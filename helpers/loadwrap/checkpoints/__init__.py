"""Explains, saves, loads and audits checkpoints. Knows tensors, not jobs.

The names below are imported at their first use: ``assert_in_sync`` in a rank must not pay for
the doctor's readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import offer

if TYPE_CHECKING:
    from .audit.audit import AuditReport, audit_resume
    from .files.load import load_checkpoint
    from .files.save import save_checkpoint
    from .keys.explain import explain_keys
    from .keys.rename import KeyRenameError
    from .keys.report import KeyReport
    from .replicas.fingerprint import fingerprint
    from .replicas.insync import ReplicasOutOfSync, assert_in_sync
    from .replicas.spread import spread

__all__ = [
    "AuditReport",
    "KeyRenameError",
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
    "KeyRenameError": "keys.rename",
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


__getattr__, __dir__ = offer(__name__, globals(), _HOME)
