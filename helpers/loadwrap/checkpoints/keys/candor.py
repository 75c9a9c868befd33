"""What else a reader must know: said in a note each, so that nothing is harmless in silence."""

from __future__ import annotations

from .adapter import adapter_part
from .judge import Judgement
from .rename import some, tensors
from .report import KeyReport
from .segments import dotted
from .sides import Side


def notes(report: KeyReport, best: Judgement, judged: list[Judgement], model: Side) -> list[str]:
    """Returns the notes below the report, the gravest first."""
    return [
        note
        for note in (
            *_choices(report, best, judged),
            _collide(best),
            _adapters(report, best),
            _sharded(report, best),
            *_torn_ties(best, model),
            _not_tied(report, best),
            _unclear(best),
            _lazy(report),
            _counters(best),
            _types(report),
            _plain(report, best),
        )
        if note
    ]


def _choices(report: KeyReport, best: Judgement, judged: list[Judgement]) -> list[str]:
    found = []
    if best.match.rivals:
        found.append(f"these would all fit: {some(best.match.rivals)}. Say which one you mean")
    if best.match.copies:
        found.append(
            f"{some(best.match.copies)} would fit too: the slow copy of the network in "
            f"`{dotted(best.match.prefix)}`"
        )
    others = [
        one.candidate.code("ckpt")
        for one in judged
        if one.candidate is not best.candidate and one.cured
    ]
    if others and best.cured:
        found.append(f"{some(others)} would fit too; the line takes {best.candidate.code('ckpt')}")
    return found


def _collide(best: Judgement) -> str:
    pairs = [f"{name} and {other}" for name, other in best.collisions.items()]
    if not pairs or best.adapter:
        return ""
    return f"without their wrappers two names become one, so nothing is renamed: {some(pairs, 3)}"


def _adapters(report: KeyReport, best: Judgement) -> str:
    if best.adapter:
        if best.match.matched:
            return (
                "the base weights are not in the file and stay as they are: load them first. "
                "Without the adapter's name in its keys strict=False takes the file and applies "
                "nothing"
            )
        return (
            "put it on with peft: PeftModel.from_pretrained(model, folder). load_state_dict with "
            "strict=False would take it and apply nothing"
        )
    inside = [name for name in report.unexpected if adapter_part(name)]
    if inside:
        return (
            f"{tensors(inside)} of an adapter lie among the weights: merge them first "
            f"(merge_and_unload), or the model loses what the adapter learned"
        )
    return ""


def _sharded(report: KeyReport, best: Judgement) -> str:
    names = best.candidate.side.entries
    if any(name.rpartition(".")[2].startswith("_flat_param") for name in names):
        return (
            "`_flat_param` is one rank's shard of FullyShardedDataParallel: gather the full state "
            "dict on the run that saved it (or read all rank files together)"
        )
    empty = [name for name, entry in names.items() if entry.shape == (0,)]
    if 2 * len(empty) > len(names):
        return (
            "the file's tensors are empty: DeepSpeed's ZeRO stage 3 leaves placeholders here; "
            "zero_to_fp32.py in the checkpoint's folder collects the weights"
        )
    return ""


def _torn_ties(best: Judgement, model: Side) -> list[str]:
    back = {target: name for name, target in best.match.alignment.pairs.items()}
    found = []
    for group in model.aliases():
        there = [name for name in group if name in back]
        for other in there[1:]:
            values = [best.candidate.side.entries[back[name]].value for name in (there[0], other)]
            known = all(hasattr(value, "untyped_storage") for value in values)
            if known and not best.candidate.side.same(back[there[0]], back[other]):
                found.append(
                    f"the model ties {other} to {there[0]}, but in the file they differ: the one "
                    f"that is loaded last wins"
                )
    return found


def _not_tied(report: KeyReport, best: Judgement) -> str:
    """A head that some models tie to their embedding, and that this file may hold once."""
    targets = list(best.match.alignment.pairs.values())
    words = ("wte.weight", "embed_tokens.weight", "embeddings.weight", "embedding.weight")
    for name in report.missing:
        if name.endswith(("head.weight", "decoder.weight", "output.weight")):
            twin = next((one for one in targets if one.endswith((*words, "emb.weight"))), "")
            if twin:
                return (
                    f"if {name} is meant to be tied to {twin}, tie them before loading: a file of "
                    f"tied weights often holds them once"
                )
    return ""


def _unclear(best: Judgement) -> str:
    if not best.match.unclear:
        return ""
    return f"blocks have other names, and there is more than one way: {best.match.unclear}"


def _lazy(report: KeyReport) -> str:
    if any(name.startswith("target_encoder.") for name in report.unexpected):
        return (
            "target_encoder is often made at the first forward: run one batch through the model, "
            "then load"
        )
    return ""


def _counters(best: Judgement) -> str:
    if not best.match.counters or best.verdict == "nothing":  # then everything is left as it is
        return ""
    return (
        f"{some(best.match.counters, 2)}: not in the file, left as they are (the file is older "
        f"than these counters, or says no version); they matter only with momentum=None"
    )


def _types(report: KeyReport) -> str:
    if not report.dtypes:
        return ""
    kinds = ", ".join(
        f"{count} from {one} to {other}" for (one, other), count in report.dtypes.items()
    )
    return f"types differ, and loading converts them without a word: {kinds}"


def _plain(report: KeyReport, best: Judgement) -> str:
    plain = best.candidate.side.plain
    if best.candidate.where or not plain or not best.match.matched:
        return ""
    return f"beside the weights lie {some(plain)}: no tensors, left out"
