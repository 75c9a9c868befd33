"""The next learning rates against those that the saved run would have had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim import Optimizer

from .findings import CHANGED, LOOK, NOT_RECORDED, OK, RATE, Finding, fault, number
from .rates import Rates, current_rates, next_rates, progress
from .saved import Saved

Asked = float | Sequence[float] | None


def own_schedule(saved: Sequence[Mapping[str, Any]], scheduler: Any) -> Mapping[str, Any] | None:
    """Returns the state in a file that is this schedule's, where the file has several."""
    if len(saved) < 2:
        return saved[0] if saved else None
    state = scheduler.state_dict() if hasattr(scheduler, "state_dict") else {}
    fit = [one for one in saved if one.keys() == state.keys()] or list(saved[:1])
    return next((one for one in fit if str(one) == str(state)), fit[0])


def check_rates(saved: Saved, optimizer: Optimizer, scheduler: Any, asked: Asked) -> Finding:
    """Compares the next rates with the saved run's, or with those asked for."""
    live = next_rates(optimizer, scheduler)
    groups = saved.optimizer["param_groups"] if saved.optimizer else None
    if groups is not None and len(groups) != len(optimizer.param_groups):
        groups = None
    told = saved.record.get("learning_rates") or None
    if told is not None and len(told[0]) != len(live[0]):
        told = None
    simulated = _simulated(saved, optimizer, scheduler, groups)
    if asked is not None:
        bases = _bases(asked, groups or optimizer.param_groups)
        return _asked(saved, optimizer, scheduler, live, told or simulated, groups, bases)
    if told is not None and _close(live, told):
        return _reminded(optimizer, scheduler, groups, f"{spell(live)}, as at the save")
    same_kind = told is None or _same_schedule(saved, scheduler)
    if simulated and same_kind and _close(live, simulated):
        if told is None:
            return _reminded(optimizer, scheduler, groups, f"{spell(live)}, as the file continues")
        return Finding(
            CHANGED,
            f"{spell(live)}; the saved schedule had {spell(told)}: it has another length or form",
        )
    expected = told or simulated
    if expected:
        return fault(RATE, f"{spell(live)}; saved: {spell(expected)}. "
                     f"{_cause(saved, optimizer, scheduler, live, expected)}")  # fmt: skip
    return _unrecorded(saved, scheduler, groups, live)


def spell(rates: Sequence[Sequence[float]]) -> str:
    """Spells rates; of several groups, the first one that changes, or the first."""
    at = 0
    if len(rates) > 1:
        moving = [at for at in range(len(rates[0])) if rates[0][at] != rates[1][at]]
        at = moving[0] if moving else 0
    return ", ".join(number(step[at]) for step in rates)


def _simulated(
    saved: Saved, optimizer: Optimizer, scheduler: Any, groups: Sequence[Mapping[str, Any]] | None
) -> Rates | None:
    """Returns the rates that the file itself continues with, under the live kind of schedule."""
    if groups is None:
        return None
    if scheduler is None:
        # Nothing moves the rates here; whether something did at the save, the file must tell.
        return None if saved.scheduler is not None else next_rates(optimizer, groups=groups)
    if saved.scheduler is None:
        return None
    return next_rates(optimizer, scheduler, groups=groups, state=saved.scheduler) or None


def _same_schedule(saved: Saved, scheduler: Any) -> bool:
    then = (saved.record.get("scheduler") or {}).get("class")
    return then == (type(scheduler).__name__ if scheduler is not None else None)


def _close(one: Rates, other: Rates) -> bool:
    return all(
        math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-15)
        for step, other_step in zip(one, other, strict=False)
        for mine, theirs in zip(step, other_step, strict=True)
    )


def _asked(
    saved: Saved,
    optimizer: Optimizer,
    scheduler: Any,
    live: Rates,
    expected: Rates | None,
    groups: Sequence[Mapping[str, Any]] | None,
    asked: list[float],
) -> Finding:
    """Judges rates when another one was asked for: the schedule, scaled to it."""
    wanted = [
        next_rates(
            optimizer, scheduler, groups=groups, state=saved.scheduler if groups else None,
            base=asked,
        )
    ]  # fmt: skip
    wanted.append([asked])
    if any(rates and _close(live, rates) for rates in wanted):
        return Finding(OK, f"{spell(live)}, at the rate asked for, {number(asked[0])}")
    now = live[0][0]
    kept = current_rates(groups)[0] if groups else expected[0][0] if expected else None
    if kept is not None and math.isclose(now, kept, rel_tol=1e-6):
        why = "optimizer.load_state_dict put the saved rate back"
    else:
        why = "it is neither the saved rate nor the one asked for"
    aim = f" (expected {spell(wanted[0])})" if wanted[0] and wanted[0][0][0] != asked[0] else ""
    return fault(RATE, f"asked for {number(asked[0])}, runs at {number(now)}{aim}: {why}")


def _bases(asked: float | Sequence[float], groups: Sequence[Mapping[str, Any]]) -> list[float]:
    """Returns the base rate asked for, of each group."""
    if not isinstance(asked, int | float):
        if len(asked) != len(groups):
            raise ValueError(f"asked_lr has {len(asked)} rates for {len(groups)} groups")
        return [float(rate) for rate in asked]
    bases = [float(group.get("initial_lr", group["lr"])) for group in groups]
    return [asked * base / bases[0] if bases[0] else asked for base in bases]


def _reminded(
    optimizer: Optimizer,
    scheduler: Any,
    groups: Sequence[Mapping[str, Any]] | None,
    words: str,
) -> Finding:
    """Adds that the optimizer was built with another rate than it runs at (a rate put back)."""
    built = optimizer.defaults.get("lr")
    if groups is None or len(groups) != 1 or not isinstance(built, int | float):
        return Finding(OK, words)
    if type(scheduler).__name__ in ("OneCycleLR", "CyclicLR"):  # these set the base rate themselves
        return Finding(OK, words)
    base = float(groups[0].get("initial_lr", groups[0]["lr"]))
    if math.isclose(float(built), base, rel_tol=1e-6):
        return Finding(OK, words)
    return Finding(
        LOOK,
        f"{words}; but the optimizer was built with {number(float(built))}, and loading put the "
        f"saved rate back: if it was asked for, asked_lr={number(float(built))}",
    )


def _cause(saved: Saved, optimizer: Optimizer, scheduler: Any, live: Rates, expected: Rates) -> str:
    done = progress(scheduler)
    state = saved.scheduler or {}
    then = (saved.record.get("scheduler") or {}).get("last_epoch", state.get("last_epoch"))
    kind = type(scheduler).__name__
    if scheduler is None:
        return "No scheduler moves the rate here"
    if done is not None and isinstance(then, int) and done != then:
        return f"{kind} stands at step {done}, the saved one at {then}: it was not loaded"
    if _never_loaded(saved, optimizer):
        return "The rate lies in the optimizer's state, and that was not loaded"
    pairs = [(mine[0], want[0]) for mine, want in zip(live, expected, strict=False)]
    ratios = [mine / want for mine, want in pairs if want]
    if ratios and ratios[0] != 1 and math.isclose(min(ratios), max(ratios), rel_tol=1e-3):
        return (
            f"All times {ratios[0]:.3g}: building {kind} after optimizer.load_state_dict changed "
            "the rate (build, then load both); if you asked for it, say asked_lr="
        )
    return f"{kind} stands right, the optimizer's rate does not: load it after building {kind}"


def _never_loaded(saved: Saved, optimizer: Optimizer) -> bool:
    """Whether the file has a state of parameters, and the optimizer none: its rate is fresh too."""
    held = saved.optimizer["state"] if saved.optimizer else {}
    own = getattr(optimizer, "optim", optimizer)  # ZeRO keeps its part in there
    return any(held.values()) and not any(own.state.values())


def _unrecorded(
    saved: Saved, scheduler: Any, groups: Sequence[Mapping[str, Any]] | None, live: Rates
) -> Finding:
    """Judges by what little the file tells: the rate itself, and that time had passed."""
    kind = type(scheduler).__name__
    late = (saved.epoch or 0) > 0 or (saved.epoch is None and (saved.step or 0) > 0)
    now = [live[0]]
    if saved.scheduler is None and scheduler is not None and progress(scheduler) == 0 and late:
        return fault(
            RATE,
            f"{spell(live)}: {kind} starts again from 0, and the file has no state of it "
            f"(it is of {_when(saved)})",
        )
    if groups is not None:
        then = [current_rates(groups)]
        if not _close(now, then):
            return fault(RATE, f"{spell(now)}, in the file {spell(then)}")
        words = f"{spell(now)}, as in the file"
        if scheduler is None:
            return Finding(LOOK, f"{words}; it also holds a scheduler's state: pass scheduler=")
        return Finding(NOT_RECORDED, f"{words}; but how it goes on is not in it")
    return Finding(NOT_RECORDED, f"{spell(live)}; the file has no rate to compare")


def _when(saved: Saved) -> str:
    return f"epoch {saved.epoch}" if saved.epoch is not None else f"step {saved.step}"
