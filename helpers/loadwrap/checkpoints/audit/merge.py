"""Joins what the ranks found, each for itself, into one verdict for each check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..ranks import spell
from .drift import first_difference
from .findings import (
    AVERAGE,
    BUFFERS,
    BY_DESIGN,
    CHANGED,
    CHECKS,
    DATA,
    DESTROYED,
    DRIFT,
    FAULT,
    FILE,
    IGNORED,
    LAYOUT,
    LOOK,
    NESTED,
    NOT_CHECKED,
    NOT_GIVEN,
    NOT_LOADED,
    NOT_RECORDED,
    OK,
    ONE_RANK,
    OPTIMIZER,
    POSITION,
    PREFIX,
    RATE,
    RATES,
    SCALE,
    STALE,
    STATE,
    TENSORS,
    Finding,
    fault,
)
from .position import Order, check_coverage

# A fault of these families on some ranks only means that those did not load.
_OF_LOADING = {
    PREFIX, NESTED, DESTROYED, NOT_LOADED, LAYOUT, STATE, RATE, SCALE, AVERAGE,
}  # fmt: skip
_OF_NAMES = {PREFIX, NESTED, DESTROYED, LAYOUT}
# What is shown when no rank has a fault: the least certain first.
_DOUBT = (NOT_CHECKED, LOOK, CHANGED, BY_DESIGN, NOT_RECORDED, NOT_GIVEN, IGNORED, OK)

PARAMETERS, STATISTICS, MOMENTS = "parameters", "statistics", "moments"


@dataclass
class Local:
    """All that one rank found and all that the others have to know of it."""

    findings: dict[str, Finding] = field(default_factory=dict)
    prints: dict[str, dict[str, int]] = field(default_factory=dict)
    """Fingerprints by name, of `PARAMETERS`, `STATISTICS` and `MOMENTS`."""
    sharded: int = 0
    rates: list[float] = field(default_factory=list)
    order: Order | None = None
    file: tuple[str, int, int | None] | None = None
    sends_buffers: bool = False
    error: str = ""


def merge(locals_: Sequence[Local], numbers: Sequence[int]) -> dict[str, Finding]:
    """Returns one finding for each check, in their order.

    Args:
        locals_: One for each rank.
        numbers: The ranks' numbers.
    """
    rows = {}
    for check in CHECKS:
        each = [local.findings[check] for local in locals_]
        rows[check] = _merged(check, each, locals_, numbers)
    if len(locals_) > 1:
        _across(rows, locals_, numbers)
    _nothing_at_all(rows)
    return rows


def _merged(
    check: str, each: Sequence[Finding], locals_: Sequence[Local], numbers: Sequence[int]
) -> Finding:
    bad = [at for at, finding in enumerate(each) if finding.bad]
    if not bad:
        return min(each, key=lambda finding: _DOUBT.index(finding.verdict))
    if len(bad) == len(each):
        return each[0]
    first = each[bad[0]]
    # What one rank alone did not load has nothing to do with the names in the file.
    words = first.words.partition(":")[0] if first.code in _OF_NAMES else first.words
    where = f"{spell([numbers[at] for at in bad])}: {words}"
    right = f"; {spell([numbers[at] for at in range(len(each)) if at not in bad])} as in the file"
    if check == BUFFERS and 0 not in bad and locals_[0].sends_buffers:
        return Finding(BY_DESIGN, f"{where}; rank 0's are sent at the next training forward")
    code = ONE_RANK if first.code in _OF_LOADING else first.code
    return Finding(FAULT, where + (right if code == ONE_RANK else ""), code)


def _across(rows: dict[str, Finding], locals_: Sequence[Local], numbers: Sequence[int]) -> None:
    """Adds the faults that only a comparison of ranks shows."""
    zero = numbers[0]

    def put(check: str, finding: Finding) -> None:
        if not rows[check].bad and rows[check].verdict != IGNORED:
            rows[check] = finding

    rates = [local.rates for local in locals_]
    lacking = [rank for rank, mine in zip(numbers, rates, strict=True) if not mine]
    if 0 < len(lacking) < len(rates):
        words = f"{spell(lacking)} {_was(lacking)} given no optimizer"
        put(RATES, fault(ONE_RANK, words))
        put(OPTIMIZER, fault(ONE_RANK, words))
    elif any(mine != rates[0] for mine in rates):
        put(RATES, fault(DRIFT, f"the rates differ between ranks: {_list(rates)}"))
    wrong = check_coverage([local.order for local in locals_])
    if wrong:
        put(POSITION, fault(DATA, wrong))
    found = first_difference([local.prints[MOMENTS] for local in locals_])
    if found and rows[OPTIMIZER].verdict != BY_DESIGN:
        name, others = found
        ranks = spell([numbers[at] for at in others])
        words = f"{ranks} {_differ(others)} from {zero} in {name}: not loaded on every rank?"
        put(OPTIMIZER, fault(ONE_RANK, words))
    found = first_difference([local.prints[STATISTICS] for local in locals_])
    if found and rows[BUFFERS].verdict in (OK, NOT_RECORDED):
        put(BUFFERS, Finding(BY_DESIGN, f"{found[0]} differs between ranks, as after every step"))
    files = [local.file for local in locals_]
    if any(file != files[0] for file in files):
        names = [f"{file[0]} (step {file[2]}, {file[1]} bytes)" if file else "?" for file in files]
        put(FILE, fault(STALE, f"the ranks read different files: {_list(names)}"))


def _nothing_at_all(rows: dict[str, Finding]) -> None:
    """A rate that starts anew is no fault of its own if the load failed before it came to that."""
    rates, tensors, optimizer = rows[RATES], rows[TENSORS], rows[OPTIMIZER]
    if rates.bad and tensors.bad and optimizer.nothing:
        if rates.code == RATE:
            words = f"{rates.words.partition('. ')[0]}. The load itself failed"
            rows[RATES] = replace(rates, code=tensors.code, words=f"{words}: {tensors.words}")


def spread_row(locals_: Sequence[Local], numbers: Sequence[int], distance: float | None) -> Finding:
    """Returns the finding on the parameters of all ranks.

    Args:
        locals_: One for each rank.
        numbers: The ranks' numbers.
        distance: How far the parameters lie apart at most, if they differ; NaN is not said.
    """
    if len(locals_) == 1:
        return Finding(OK, "one process: nothing to compare with")
    count, sharded = len(locals_[0].prints[PARAMETERS]), max(local.sharded for local in locals_)
    found = first_difference([local.prints[PARAMETERS] for local in locals_])
    if found is None:
        if sharded and not count:
            return Finding(BY_DESIGN, f"{sharded} parameters are sharded: ranks have to differ")
        more = f"; {sharded} sharded ones differ by design" if sharded else ""
        return Finding(OK, f"0 over {count} parameters on {len(numbers)} ranks{more}")
    name, others = found
    ranks = spell([numbers[at] for at in others])
    by = f" by up to {distance:.3g}" if distance is not None and distance == distance else ""
    loaded = [not local.findings[TENSORS].bad for local in locals_]
    code = ONE_RANK if not all(loaded) or locals_[0].findings[TENSORS].verdict != OK else DRIFT
    words = f"{ranks} {_differ(others)} from {numbers[0]}, first in {name}{by}"
    return fault(code, words)


def apart(locals_: Sequence[Local]) -> bool:
    """Whether the parameters differ between ranks."""
    return first_difference([local.prints[PARAMETERS] for local in locals_]) is not None


def hash_of_prints(prints: Mapping[str, int]) -> str:
    """Returns a few characters that stand for fingerprints by name."""
    return hashlib.blake2b(repr(list(prints.items())).encode(), digest_size=16).hexdigest()


def _differ(others: Sequence[int]) -> str:
    return "differs" if len(others) == 1 else "differ"


def _was(ranks: Sequence[int]) -> str:
    return "was" if len(ranks) == 1 else "were"


def _list(things: Sequence[object]) -> str:
    return ", ".join(map(str, things))
