"""What a file or a folder is, and what lies in it: headers only, no pickle ever executed.

Imports no torch: the doctor answers at once.
"""

from __future__ import annotations

from .checkpoint import Checkpoint
from .opening import open_checkpoint
from .values import CheckpointError, Refused, TensorInfo

__all__ = ["Checkpoint", "CheckpointError", "Refused", "TensorInfo", "open_checkpoint"]
