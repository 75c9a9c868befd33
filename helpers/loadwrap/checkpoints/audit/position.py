"""The position in the data: the step, the epoch of the sampler, and what each rank will see."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

from torch.utils.data import DistributedSampler

from .findings import CHANGED, DATA, LOOK, NOT_GIVEN, NOT_RECORDED, OK, Finding, fault
from .saved import Saved

_MOST = 1_000_000  # indices that are listed to count what an epoch covers


@dataclass(frozen=True)
class Order:
    """How a rank's sampler orders the data. `length` is of the whole data set."""

    kind: str
    epoch: int | None = None
    seed: int | None = None
    rank: int | None = None
    replicas: int | None = None
    length: int | None = None
    shuffle: bool | None = None
    first: tuple[int, ...] = ()


def find_sampler(sampler: Any, loader: Any) -> Any:
    """Returns the sampler, from the loader if it was not given itself."""
    if sampler is not None or loader is None:
        return sampler
    own = getattr(loader, "sampler", None)
    inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return own if hasattr(own, "set_epoch") else inner if inner is not None else own


def order_of(sampler: Any) -> Order | None:
    """Reads a sampler without drawing from it: its indices come from a copy."""
    if sampler is None:
        return None

    def whole(name: str) -> int | None:
        value = getattr(sampler, name, None)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    length = None
    first: tuple[int, ...] = ()
    if isinstance(sampler, DistributedSampler):
        try:
            length = len(sampler.dataset)  # type: ignore[arg-type]
            if length <= _MOST:
                first = tuple(list(indices_of(sampler))[:5])
        except (TypeError, NotImplementedError):
            length = None
    return Order(
        type(sampler).__name__,
        whole("epoch"),
        whole("seed"),
        whole("rank"),
        whole("num_replicas"),
        length,
        getattr(sampler, "shuffle", None),
        first,
    )


def indices_of(sampler: DistributedSampler[Any]) -> list[int]:
    """Returns the indices of the sampler's epoch; it has a generator of its own."""
    return list(DistributedSampler.__iter__(copy.copy(sampler)))


def describe(order: Order | None) -> dict[str, Any] | None:
    """Returns a sampler's order as a record keeps it."""
    return None if order is None else asdict(order) | {"first": list(order.first)}


@dataclass(frozen=True)
class Now:
    """Where the caller says that training goes on."""

    step: int | None = None
    epoch: int | None = None
    position: int | None = None
    batches: int | None = None
    """Batches of an epoch, of the live loader."""


def check_position(saved: Saved, order: Order | None, now: Now, world: int) -> Finding:
    """Compares one rank's position with the file's."""
    if now.step is not None and saved.step is not None and now.step != saved.step:
        gap = saved.step - now.step
        what = f"{gap} steps would be done again" if gap > 0 else f"{-gap} steps would be left out"
        return fault(DATA, f"goes on at step {now.step}, the file is of step {saved.step}: {what}")
    if order is None and now.epoch is None:
        if saved.step is None and saved.epoch is None:
            return Finding(NOT_RECORDED, "the file has no step and no epoch")
        return Finding(NOT_GIVEN, f"{_place(saved)}: pass sampler= or loader=")
    live_epoch = order.epoch if order is not None and order.epoch is not None else now.epoch
    changed = _other_world(saved, world)
    wrong = _wrong_share(order, world) or _wrong_order(saved, order)
    if wrong:
        return fault(DATA, wrong)
    if live_epoch is None:
        kind = order.kind if order is not None else "nothing"
        return Finding(NOT_RECORDED, f"{kind} keeps no epoch; {_place(saved)}")
    expected = _expected(saved, now, same_world=not changed)
    if expected is None:
        return Finding(NOT_RECORDED, f"the file has no epoch; the sampler is at {live_epoch}")
    low, high = expected
    if now.epoch is not None and low <= now.epoch <= high and not low <= live_epoch <= high:
        return Finding(
            LOOK,
            f"goes on in epoch {now.epoch}, as it should; sampler.epoch is still {live_epoch}: "
            f"sampler.set_epoch({now.epoch}) before the first batch",
        )
    if not low <= live_epoch <= high:
        wanted = f"{low}" if low == high else f"{low} or later"
        return fault(
            DATA,
            f"sampler.epoch is {live_epoch}, the file goes on in epoch {wanted}: "
            f"sampler.set_epoch({low}) before the first batch",
        )
    wrong = _wrong_batch(saved, now, same_world=not changed)
    if wrong:
        return fault(DATA, wrong)
    words = f"epoch {live_epoch}" + (f", step {saved.step}" if saved.step is not None else "")
    if order is not None and order.first:
        words += f"; rank {order.rank} begins with {', '.join(map(str, order.first))}"
    if changed:
        return Finding(CHANGED, f"{words}; {changed}")
    inside = _unchecked(saved, now)
    return Finding(LOOK, f"{words}; {inside}") if inside else Finding(OK, words)


def _place(saved: Saved) -> str:
    parts = [f"step {saved.step}" if saved.step is not None else ""]
    parts.append(f"epoch {saved.epoch}" if saved.epoch is not None else "")
    return "the file is of " + (", ".join(filter(None, parts)) or "no known step")


def _other_world(saved: Saved, world: int) -> str:
    if saved.world_size is None or saved.world_size == world:
        return ""
    was = saved.world_size
    return (
        f"{was} rank{'s' * (was > 1)} then, {world} now: with the same batch a rank, the effective "
        f"batch is {world / was:.3g}x, the steps of an epoch {was / world:.3g}x"
    )


def _wrong_share(order: Order | None, world: int) -> str:
    if order is None or order.replicas is None or order.replicas == world:
        return ""
    return f"the sampler shares the data among {order.replicas} ranks, there are {world}"


def _wrong_order(saved: Saved, order: Order | None) -> str:
    was = saved.record.get("sampler") or {}
    if order is None:
        return ""
    for name, value in (("seed", order.seed), ("shuffle", order.shuffle)):
        if name in was and was[name] is not None and value is not None and was[name] != value:
            return f"the sampler's {name} is {value}, at the save {was[name]}: another order"
    return ""


def _expected(saved: Saved, now: Now, same_world: bool) -> tuple[int, int] | None:
    """Returns the epochs that may be right: from, to."""
    far = 1 << 60
    told = (saved.record.get("sampler") or {}).get("epoch")
    epoch = saved.epoch if told is None else told
    if now.batches and saved.step is not None and same_world:
        by_step = saved.step // now.batches
        if epoch is None:
            # With gradients accumulated a step is several batches: the epoch is then later.
            return by_step, far
        if by_step in (epoch, epoch + 1):
            return by_step, by_step
    if epoch is None:
        return None
    if told is not None and saved.epoch is not None and saved.epoch > told:
        return saved.epoch, saved.epoch  # said when saving: the next step's
    # The file does not say whether that epoch had come to its end.
    return epoch, epoch + 1


def _wrong_batch(saved: Saved, now: Now, same_world: bool) -> str:
    if now.position is None or not now.batches or saved.step is None or not same_world:
        return ""
    wanted = saved.step % now.batches
    if now.position == wanted:
        return ""
    return (
        f"goes on at batch {now.position} of the epoch, the file is {wanted} batches into it: "
        f"{'data repeat' if now.position < wanted else 'data are left out'}"
    )


def _unchecked(saved: Saved, now: Now) -> str:
    if now.position is not None or not now.batches or saved.step is None:
        return ""
    inside = saved.step % now.batches
    return f"the file is {inside} batches into it: left out now? say position=" if inside else ""


def check_coverage(orders: list[Order | None]) -> str:
    """Says what is wrong between the samplers of all ranks, if anything is."""
    known = [order for order in orders if order is not None and order.replicas is not None]
    if len(known) != len(orders) or len(known) < 2:
        return ""
    for name, values in (
        ("epoch", [order.epoch for order in known]),
        ("seed", [order.seed for order in known]),
        ("data set's length", [order.length for order in known]),
    ):
        if len(set(values)) > 1:
            spelled = ", ".join(map(str, values))
            return f"the samplers' {name} differs between ranks ({spelled}){_covered(known)}"
    places = [order.rank for order in known]
    if len(set(places)) < len(places):
        return f"several ranks read the same part of the data (sampler ranks {places})"
    return ""


def _covered(orders: list[Order]) -> str:
    seen: set[int] = set()
    for order in orders:
        if order.length is None or order.length > _MOST or not order.shuffle:
            return ""
        twin: DistributedSampler[Any] = DistributedSampler(
            range(order.length),  # type: ignore[arg-type]
            order.replicas,
            order.rank,
            seed=order.seed or 0,
        )
        twin.set_epoch(order.epoch or 0)
        seen.update(indices_of(twin))
    return f": {len(seen)} of {orders[0].length} samples seen in the epoch"
