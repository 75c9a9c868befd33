"""The moving average of the weights: its tensors and the counter that its decay starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from .bits import equal
from .findings import AVERAGE, NOT_GIVEN, NOT_RECORDED, OK, Finding, fault, number, some
from .live import Live, live_tensors
from .pairing import Pairing, pair_entry
from .saved import Saved, is_number

_COUNTERS = ("n_averaged", "num_updates", "updates", "n_updates", "step")


def check_average(saved: Saved, ema: Any, live: Live | None, pairing: Pairing | None) -> Finding:
    """Compares the average with the file's, and its counter."""
    if ema is None:
        if saved.ema is None:
            return Finding(NOT_GIVEN, "none, and none in the file")
        return Finding(NOT_GIVEN, f'the file has one in ["{saved.ema_name}"]: pass ema=')
    if saved.ema is None:
        return Finding(NOT_RECORDED, "the file holds no average: it starts from the weights")
    mine = average_tensors(ema)
    if mine:
        wrong, words = _compare_model(saved, mine, live, pairing)
    else:
        wrong, words = _compare_tree(saved.ema, _state(ema))
    if wrong:
        return fault(AVERAGE, wrong)
    now, then = counter_of(ema), _counter_in(saved)
    if now is not None and then is not None and now != then:
        return fault(
            AVERAGE,
            f"the counter is {now:.0f}, at the save {then:.0f}: a decay that warms up would "
            "overwrite the average",
        )
    if then is None:
        words += "; no counter in the file"
    else:
        words += f"; counter {then:.0f}"
    return Finding(OK, words)


def average_tensors(ema: Any) -> dict[str, Tensor]:
    """Returns an average's tensors under the model's names; none if it has no names."""
    if isinstance(ema, nn.Module):
        inner = getattr(ema, "module", ema)
        return live_tensors(inner if isinstance(inner, nn.Module) else ema).tensors
    for name in ("ema", "module", "ema_model", "model"):
        inner = getattr(ema, name, None)
        if isinstance(inner, nn.Module):
            return live_tensors(inner).tensors
    for place in (ema, getattr(ema, "shadow", None), getattr(ema, "state", None)):
        if isinstance(place, Mapping):
            found = {str(key): value for key, value in place.items() if isinstance(value, Tensor)}
            if any(value.dim() for value in found.values()):
                return {key: value for key, value in found.items() if key not in _COUNTERS}
    return {}


def counter_of(ema: Any) -> float | None:
    """Returns how many updates an average has had, if it counts them."""
    for name in _COUNTERS:
        value = ema.get(name) if isinstance(ema, Mapping) else getattr(ema, name, None)
        if is_number(value):
            return float(value)  # type: ignore[arg-type]
    return None


def _counter_in(saved: Saved) -> float | None:
    own = counter_of(saved.ema)
    if own is None:
        own = (saved.record.get("ema") or {}).get("counter")
    if own is None and is_number(saved.tree.get("updates")):
        own = float(saved.tree["updates"])
    return own


def _compare_model(
    saved: Saved, mine: dict[str, Tensor], live: Live | None, pairing: Pairing | None
) -> tuple[str, str]:
    found = pair_entry(saved.ema, mine)
    if found is None or not found.saved:
        return (
            f'no tensor of ["{saved.ema_name}"] fits the average: build it from the inner model',
            "",
        )
    bad = [
        name
        for name, tensor in mine.items()
        if name in found.saved and not equal(tensor, found.saved[name])
    ]
    bad += [
        name
        for name in mine
        if name not in found.saved and name not in found.tied and live is not None
        and name in live.parameters
    ]  # fmt: skip
    share = f"{len(mine) - len(bad)} of {len(mine)}"
    if not bad:
        return "", f"{share} as in the file"
    raw = live.tensors if live is not None else {}
    now = _distance(mine, raw)
    then = _distance(found.saved, pairing.saved if pairing is not None else {})
    words = f"{share} loaded ({some(bad)})"
    if now is not None and then is not None:
        words += f"; {number(now)} from the weights, at the save {number(then)}"
    return words, ""


def _distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float | None:
    """Returns the norm of the difference of two sets of weights, by name."""
    names = [name for name, tensor in one.items() if name in other and tensor.is_floating_point()]
    if not names:
        return None
    total = 0.0
    for name in names:
        mine = one[name].detach().double()
        if mine.shape != other[name].shape:
            return None
        total += (mine - other[name].detach().to(mine.device).double()).pow(2).sum().item()
    return total**0.5


def _state(ema: Any) -> Any:
    return ema.state_dict() if hasattr(ema, "state_dict") else ema


def _compare_tree(saved: Any, mine: Any) -> tuple[str, str]:
    """Compares an average of another make, leaf by leaf."""
    then, now = dict(_leaves(saved)), dict(_leaves(mine))
    shared = [path for path in then if path in now]
    if not shared:
        return "nothing of the file's average is in the one here", ""
    bad = [path for path in shared if not _same(now[path], then[path])]
    share = f"{len(shared) - len(bad)} of {len(then)}"
    return (f"{share} loaded ({some(bad)})", "") if bad else ("", f"{share} as in the file")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from _leaves(part, f"{path}.{at}" if path else str(at))
    elif isinstance(value, Tensor) or is_number(value):
        yield path, value


def _same(now: Any, then: Any) -> bool:
    if isinstance(now, Tensor) and isinstance(then, Tensor):
        return equal(now, then)
    return bool(now == then)
