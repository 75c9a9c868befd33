"""explain_keys: why a checkpoint's names do, or do not, fit a model, and the line that cures it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from .adapter import adapter_name
from .candor import notes
from .chains import Chain, chains
from .code import Plan, line
from .container import Candidate, candidates
from .judge import Judgement, judge
from .opened import opening_line, refused, top_level
from .report import KeyReport
from .segments import dotted
from .sides import Shape, Side, read_model, side_of
from .words import write

_MOST_ENTRIES = 24


def explain_keys(
    checkpoint: Mapping[str, Any] | torch.nn.Module | str | os.PathLike[str],
    model: torch.nn.Module | Mapping[str, Any],
) -> KeyReport:
    """Says whether a checkpoint's tensors fit a model, and if not, why and what cures it.

    Reads names, shapes and types; of the numbers only what is needed to recognise tied weights.
    Changes nothing. For a model sharded by the old `FullyShardedDataParallel`, whose state dict
    is a collective, every rank must call it.

    Args:
        checkpoint: A state dict, a whole checkpoint around one, or the path of one. A path is
            read by its headers, and no pickle is executed.
        model: The module to load into, wrapped as it will be then; or a mapping of its names to
            tensors, shapes or None (unknown).

    Returns:
        The report. Print it.

    Raises:
        CheckpointError: If a path cannot be read; the message is one sentence.
        TypeError: If the checkpoint or the model is something else.

    Example:
        >>> import torch
        >>> from loadwrap.checkpoints import explain_keys
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3))
        >>> saved = {"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}
        >>> print(explain_keys(saved, net).fix)  # doctest: +NORMALIZE_WHITESPACE
        model.load_state_dict({key.removeprefix("module."): value
            for key, value in ckpt["state_dict"].items()})
    """
    side = read_model(model)
    tree: object = checkpoint
    opening, more = "", list[str]()
    if isinstance(checkpoint, str | os.PathLike):
        from ..formats import open_checkpoint

        opened = open_checkpoint(checkpoint)
        unread = opened.refusals, opened.opcode
        tree = opened.tree
        opening = opening_line(os.fspath(checkpoint), opened.kind, *unread)
        more = [*opened.problems, *refused(*unread)]
    elif not isinstance(checkpoint, Mapping | torch.nn.Module | list | tuple):
        raise TypeError(
            f"the checkpoint must be a state dict, what torch.load returned, or a path, "
            f"not {type(checkpoint).__name__}."
        )
    children = {name.partition(".")[0] for name in side.entries}
    return _explain(candidates(tree, children), side, tree, opening, more)


def explain_names(
    checkpoint_shapes: Mapping[str, Shape], model_shapes: Mapping[str, Shape]
) -> KeyReport:
    """Does what explain_keys does, from names alone, as in the text of an error.

    Args:
        checkpoint_shapes: Names in the file; shapes, or None where unknown.
        model_shapes: Names in the model; shapes, or None where unknown.

    Returns:
        The report. Where shapes are unknown it renames no block to another word.

    Example:
        >>> from loadwrap.checkpoints.keys.explain import explain_names
        >>> explain_names({"module.fc.weight": None}, {"fc.weight": None}).prefix
        'module.'
    """
    return _explain([Candidate((), side_of(checkpoint_shapes))], side_of(model_shapes))


def _explain(
    found: list[Candidate],
    model: Side,
    tree: object = None,
    opening: str = "",
    more: Sequence[str] = (),
) -> KeyReport:
    # Of very many entries only the largest can be a whole model's.
    large = sorted(found, key=lambda one: -len(one.side.entries))[:_MOST_ENTRIES]
    kept = {id(one) for one in large if one.side.entries}
    judged = [judge(one, model) for one in found if id(one) in kept]
    if not judged or not model.entries:
        nothing = (0, len(model.entries))
        verdict = "empty" if model.entries else "no model"
        report = KeyReport(verdict, before=nothing, after=nothing)
        return replace(report, text=write(report, None, None, model, [*top_level(tree), *more]))
    judged.sort(key=lambda one: one.order)
    best = judged[0]
    equals = _equals(judged)
    if equals:
        best = replace(best, verdict="ambiguous")
        best.match.rivals = [one.candidate.code("ckpt") for one in (judged[0], *equals)]
    report, both = _report(best, judged, model, tree)
    said = [*notes(report, best, judged, model), *more]
    return replace(report, text=write(report, best, both, model, said, opening))


def _equals(judged: list[Judgement]) -> list[Judgement]:
    """Returns the entries that fit just as well as the best and hold other numbers."""
    best = judged[0]
    if not best.cured:
        return []
    return [
        other
        for other in judged[1:]
        if other.order == best.order
        and not _same_numbers(best.candidate.side, other.candidate.side)
    ]


def _same_numbers(one: Side, other: Side) -> bool:
    if one.entries.keys() != other.entries.keys():
        return False
    for name, entry in one.entries.items():
        first, second = entry.value, other.entries[name].value
        if entry.identity is not None and entry.identity == other.entries[name].identity:
            continue
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return False
        if not torch.equal(first, second):
            return False
    return True


def _report(
    best: Judgement, judged: list[Judgement], model: Side, tree: object
) -> tuple[KeyReport, tuple[Chain, Chain]]:
    alignment, file = best.match.alignment, best.candidate.side
    both = chains(best.match, model)
    cured = best.cured and best.verdict != "ambiguous"
    renaming = best.renaming() if cured else None
    kinds = Counter(
        (file.entries[name].dtype, model.entries[target].dtype)
        for name, target in alignment.pairs.items()
    )
    total, done = len(model.entries), best.match.matched + len(best.match.tied)
    # Not even a part is offered where it might be the wrong one.
    doubtful = best.match.unclear or best.collisions or best.verdict in ("ambiguous", "nothing")
    entries = [one for one in judged if one.match.matched] or judged
    report = KeyReport(
        verdict=best.verdict,
        fix=_line(best, both, model) if cured else "",
        part="" if cured or doubtful else _line(best, both, model),
        container=best.candidate.name,
        beside=_beside(best.candidate, tree),
        containers=tuple(one.candidate.name for one in entries),
        checkpoint_wrappers=both[0].wrappers,
        model_wrappers=both[1].wrappers,
        prefix=dotted(both[0].lead),
        added_prefix=dotted(both[1].lead),
        renamed=tuple(map(str, best.match.rules)),
        missing=tuple(name for name in best.lacking if not model.entries[name].buffer),
        buffers_missing=tuple(name for name in best.lacking if model.entries[name].buffer),
        unexpected=tuple(best.unexpected),
        shape_mismatches=tuple(
            (target, file.entries[name].shape or (), model.entries[target].shape or ())
            for name, target in alignment.other_shape.items()
        ),
        tied=dict(best.match.tied),
        left_out=dict(best.left_out),
        other_parts=tuple(best.other_parts),
        dtypes={kind: n for kind, n in kinds.items() if all(kind) and kind[0] != kind[1]},
        before=(best.before, total),
        after=(done, total),
        in_file=len(file.entries),
        candidate=best.candidate,
        renaming=renaming,
    )
    return report, both


def _beside(candidate: Candidate, tree: object) -> tuple[str, ...]:
    taken = candidate.where[:1] or candidate.joined
    if not taken or not isinstance(tree, Mapping):
        return ()
    return tuple(str(key) for key in tree if key not in taken)


def _line(best: Judgement, both: tuple[Chain, Chain], model: Side) -> str:
    alignment, side = best.match.alignment, best.candidate.side
    insertions = []
    for path, segment in both[0].inside:
        insertions.append(((*path, segment), path))
    for path, segment in both[1].inside:
        insertions.append((path, (*path, segment)))
    loaded = alignment.pairs
    dropped = () if best.cured else tuple(name for name in side.entries if name not in loaded)
    # Strict as soon as the module that is loaded gets all it has.
    filled = {*loaded.values(), *best.match.tied, *best.match.counters}
    start = dotted(both[1].lead)
    whole = all(name in filled for name in model.entries if name.startswith(start))
    plan = Plan(
        candidate=best.candidate,
        renaming=best.renaming(),
        prefix=dotted(both[0].lead),
        inner=both[1].lead,
        removed=frozenset(segment for _, segment in both[0].inside),
        insertions=tuple(insertions),
        rules=tuple(best.match.rules),
        strict=whole,
        dropped=dropped,
        adapter=adapter_name(loaded) if best.adapter else "",
    )
    return line(plan, package=best.cured) if loaded else ""
