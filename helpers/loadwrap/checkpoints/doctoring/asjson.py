"""The doctor's answer for scripts: one JSON object."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..formats.checkpoint import Checkpoint
from .errorlog import LoadError
from .examination import Examination, how_to_load, key_text
from .fix import numel
from .refusals import dangerous

VERSION = 1


def as_json(found: Examination) -> str:
    """An examination; the names of its entries are part of the interface."""
    checkpoint, contents = found.checkpoint, found.contents
    told: dict[str, Any] = {
        "version": VERSION,
        "path": str(checkpoint.path),
        "exit": found.code,
        "kind": checkpoint.kind,
        "bytes": checkpoint.nbytes,
        "problems": checkpoint.problems,
        "notes": [*checkpoint.notes, *found.notes],
        "refused": _refused(checkpoint),
        "weights": [
            {
                "entry": one.code,
                "tensors": len(one.tensors),
                "elements": numel(one.tensors),
                "bytes": one.nbytes,
                "dtypes": sorted({tensor.dtype for tensor in one.tensors.values()}),
                "devices": sorted({tensor.device for tensor in one.tensors.values()}),
                "pickled": one.pickled or None,
            }
            for one in contents.weights
        ],
        "optimizers": [asdict(one) for one in contents.optimizers],
        "parts": {part: [asdict(one) for one in held] for part, held in contents.parts.items()},
        "missing": contents.missing,
        "not_recorded": contents.doubtful,
    }
    if found.keys is not None:
        told["against"] = found.against
        told["keys"] = report_as_dict(found.keys)
        for name in ("text", "fix", "part"):
            told["keys"][name] = key_text(found, told["keys"][name])
        told["how_to_load"] = how_to_load(checkpoint)
    if found.deep is not None:
        told["deep"] = asdict(found.deep)
    if found.written or found.refused:
        told["fix"] = found.written or found.refused.lstrip("!")
    return dump(told)


def report_as_dict(report: Any) -> dict[str, Any]:
    """A KeyReport, without what only Python can use."""
    told = {"matches": report.matches, "text": str(report)}
    for name in (
        "verdict", "fix", "part", "container", "containers", "checkpoint_wrappers",
        "model_wrappers", "prefix", "added_prefix", "renamed", "missing", "buffers_missing",
        "unexpected", "shape_mismatches", "tied", "left_out", "other_parts", "before", "after",
    ):  # fmt: skip
        told[name] = getattr(report, name, None)
    return told


def error_as_dict(error: LoadError, report: Any) -> dict[str, Any]:
    """One load error of a log, and what it comes from."""
    return {
        "model": error.model,
        "ranks": sorted(error.ranks),
        "cut": error.cut,
        "silent": error.silent,
        "missing": len(error.missing),
        "unexpected": len(error.unexpected),
        "shapes": len(error.shapes),
        "keys": report_as_dict(report),
    }


def dump(told: dict[str, Any]) -> str:
    """JSON that any reader takes: NaN and the like become null."""
    try:
        return json.dumps(told, indent=2, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(told), indent=2, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    odd = isinstance(value, float) and (value != value or value in (float("inf"), -float("inf")))
    return None if odd else value


def _refused(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [
        {**asdict(one), "runs_code": dangerous(one.name)} for one in checkpoint.refusals
    ]
    if checkpoint.opcode and not told:
        told.append({"name": f"pickle opcode {checkpoint.opcode}", "where": "", "times": 1})
    return told
