"""What one check found on one rank, and the names that faults have."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
FAULT = "fault"
LOOK = "look"  # may be meant, may be not: it is said, and is no fault
CHANGED = "changed"  # differs from the saved run, as a changed world size or rate must
BY_DESIGN = "by design"  # ranks differ, and have to
NOT_RECORDED = "not recorded"  # the file does not say: never the same as "ok"
NOT_GIVEN = "not given"  # the caller did not pass the object
NOT_CHECKED = "not checked"
IGNORED = "ignored"

RATES = "next learning rates"
TENSORS = "tensors loaded"
POSITION = "position in the data"
SPREAD = "spread across ranks"
OPTIMIZER = "optimizer state"
EMA = "EMA"
BUFFERS = "buffers"
SCALER = "scaler"
FILE = "which file"
RNG = "RNG per rank"
CHECKS = (RATES, TENSORS, POSITION, SPREAD, OPTIMIZER, EMA, BUFFERS, SCALER, FILE, RNG)

# The families of faults that a check can name.
PREFIX = "F01 wrapper prefix"
NESTED = "F02 nested prefixes"
DESTROYED = "F03 prefix fix destroyed keys"
NOT_LOADED = "F04 tensors not loaded"
LAYOUT = "F05 other key layout"
STATE = "F06 optimizer state"
RATE = "F07 learning rate"
SCALE = "F08 AMP scaler"
AVERAGE = "F09 EMA"
DATA = "F10 data order"
ONE_RANK = "F11 loaded on some ranks only"
DRIFT = "F12 DDP bypassed"
BUFFER = "F13 buffers"
WRITERS = "F14 several writers"
STALE = "F15 stale or damaged file"
WORLD = "F19 sharded optimizer or world size"
CONTRACT = "F20 DDP contract"


@dataclass(frozen=True)
class Finding:
    """One check's result: a verdict, a sentence, and for a fault the family it belongs to."""

    verdict: str
    words: str
    code: str = ""
    nothing: bool = False
    """A fault of the kind that not one bit was loaded."""

    @property
    def bad(self) -> bool:
        """Whether it is a fault."""
        return self.verdict == FAULT


def fault(code: str, words: str, nothing: bool = False) -> Finding:
    """Returns a fault of a family."""
    return Finding(FAULT, words, code, nothing)


def some(names: list[str], most: int = 3) -> str:
    """Spells a list of names, the first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def number(value: float) -> str:
    """Spells a number as shortly as it can be told from its neighbours."""
    return f"{value:.4g}"
