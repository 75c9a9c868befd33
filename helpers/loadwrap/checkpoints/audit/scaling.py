"""The scale of mixed precision."""

from __future__ import annotations

from typing import Any

from .findings import LOOK, NOT_GIVEN, NOT_RECORDED, OK, SCALE, Finding, fault
from .saved import Saved


def check_scaler(saved: Saved, scaler: Any) -> Finding:
    """Compares the scale and the steps since it last grew."""
    then = saved.scaler
    if scaler is None:
        if then:
            return Finding(
                NOT_GIVEN, f"the file has one, scale {_spell(then['scale'])}: pass scaler="
            )
        return Finding(NOT_GIVEN, "none, and none in the file")
    now = scaler.state_dict()
    if not now:
        if then:
            return Finding(
                LOOK, f"disabled here; in the file it was on, scale {_spell(then['scale'])}"
            )
        return Finding(OK, "disabled, and no scale in the file")
    if then is None:
        return Finding(
            NOT_RECORDED, f"the file holds no scale: it starts at {_spell(now['scale'])}"
        )
    if not then:
        return Finding(
            NOT_RECORDED, f"saved by a disabled scaler: starts at {_spell(now['scale'])}"
        )
    for key, words in (("scale", "scale"), ("_growth_tracker", "growth tracker")):
        if key in then and float(then[key]) != float(now.get(key, then[key])):
            return fault(
                SCALE, f"{words} {_spell(float(now[key]))}, saved {_spell(float(then[key]))}"
            )
    return Finding(OK, f"scale {_spell(now['scale'])}, growth tracker {now.get('_growth_tracker')}")


def _spell(value: float) -> str:
    return f"{float(value):.10g}"
