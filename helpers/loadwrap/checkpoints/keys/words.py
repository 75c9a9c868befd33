"""The report as text: what is wrong, the line that cures it, and what else to know."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..formats.words import one_line, shortened
from .chains import Chain, count_below
from .judge import Judgement
from .rename import some, tensors
from .report import KeyReport
from .segments import WRAPPERS, dotted
from .sides import Side

_HEADLINES = {
    "fits": "FITS: all {total} tensors of the model are in the file, under its names.",
    "wrapper": "DOES NOT FIT AS IT IS: wrappers changed the names. One line cures it.",
    "prefix": "DOES NOT FIT AS IT IS: the names differ by a prefix. One line cures it.",
    "subtree": "THE MODEL IS ONE PART OF THIS FILE: one line loads that part, completely.",
    "renamed": "DOES NOT FIT AS IT IS: blocks have other names. One line renames them; read the "
    "rule before you trust it.",
    "tied": "FITS BUT FOR TIED WEIGHTS: what is missing is the same tensor as one that is there.",
    "leftovers": "FITS BUT FOR LEFTOVERS: every tensor of the model is there, beside entries that "
    "it does not need.",
    "partial": "ONLY A PART FITS: {done} of the model's {total} tensors. The {rest}.",
    "extra": "THE FILE HOLDS MORE THAN THE MODEL: {unexpected} of it have no place there. Is it "
    "the right model?",
    "buffers": "BUFFERS ARE MISSING: every parameter is there, but not {buffers}. "
    "Training would look right, evaluation would not.",
    "shapes": "SHAPES DIFFER in {shapes} of the model's {total} tensors. Is it the right model, "
    "the right configuration?",
    "ambiguous": "AMBIGUOUS: several parts of the file fit, and nothing says which is meant. "
    "Nothing is renamed.",
    "adapter": "AN ADAPTER, NOT A MODEL: small tensors (LoRA or the like) that belong beside a "
    "model's weights.",
    "nothing": "NOTHING MATCHES: none of the model's {total} tensors is in the file, under any "
    "prefix. With strict=False it would stay at its initial values, and nothing would say so.",
    "empty": "NO WEIGHTS: no entry of the file looks like a state dict.",
    "no model": "THE MODEL HAS NO TENSORS: there is nothing to load into.",
}


def write(
    report: KeyReport,
    best: Judgement | None,
    chains: tuple[Chain, Chain] | None,
    model: Side,
    notes: list[str],
    opening: str = "",
) -> str:
    """Returns the few lines that the report prints."""
    rows = [("", headline(report))]
    if best is not None and chains is not None:
        rows.append(("weights", _weights(report, best)))
        if report.verdict not in ("nothing", "adapter", "ambiguous"):
            rows += _names("the file", chains[0], best.candidate.side.entries)
            rows += _names("the model", chains[1], model.entries)
            rows += _common(chains[0])
        rows += [("rule", rule) for rule in report.renamed]
        rows.append(("match", _counts(report)))
        rows += _lists(report, best)
    if opening and (report.fix or report.part):
        rows.append(("open", opening))
    if report.fix:
        rows.append(("load", report.fix))
    elif report.part:
        rows.append(("part only", report.part))
    rows += [("note", note) for note in notes]
    code = ("open", "load", "part only")  # to be copied: as long as it is
    rows = [(la, one_line(text) if la in code else shortened(one_line(text))) for la, text in rows]
    return "\n".join(f"  {label:<11}{text}" if label else text for label, text in rows)


def headline(report: KeyReport) -> str:
    """Returns the first line: the verdict in words."""
    done, total = report.after
    if report.verdict == "buffers":
        last = {name.rpartition(".")[2] for name in report.buffers_missing}
        if last == {"n_averaged"}:
            return (
                "THE AVERAGE HAS NO COUNTER: every weight is there, n_averaged is not. At 0, the "
                "next update_parameters overwrites what was loaded."
            )
        if last == {"num_batches_tracked"}:
            return (
                "COUNTERS ARE MISSING: every weight and every running statistic is there, the "
                "counts of batches are not. They matter only with momentum=None."
            )
    return _HEADLINES[report.verdict].format(
        done=done,
        total=total,
        rest="other 1 would keep its initial value"
        if total - done == 1
        else f"other {total - done} would keep their initial values",
        buffers=_count(report.buffers_missing, "buffer"),
        unexpected=tensors(report.unexpected),
        shapes=len(report.shape_mismatches),
    )


def _weights(report: KeyReport, best: Judgement) -> str:
    entry = best.candidate
    code = entry.code("ckpt")
    if entry.joined:
        code = ", ".join(f'ckpt["{part}"]' for part in entry.joined) + ", one child's each"
    text = f"{code}: {tensors(entry.side.entries)}"
    others = [name for name in report.containers if name and name != report.container]
    if others and not entry.joined:
        text += f"; weights also in {some(others)}"
    beside = [name for name in report.beside if name not in others]
    return f"{text}; beside it {some(beside)}" if beside else text


def _names(who: str, chain: Chain, names: Collection[str]) -> Iterable[tuple[str, str]]:
    if chain.lead:
        makers = dict.fromkeys(WRAPPERS[part] for part in chain.lead if part in WRAPPERS)
        by = f" ({', then '.join(makers)})" if makers else ""
        lead = dotted(chain.lead)
        below = [name for name in names if name.startswith(lead)]
        yield "names", f"{who} has `{lead}`{by} in front of {_share(below, names)}"
    inside: dict[str, list[str]] = {}
    for passed in chain.inside:
        inside.setdefault(passed[1], []).extend(count_below(names, passed))
    for segment, below in inside.items():
        example = f", such as {below[0]}" if below else ""
        by = WRAPPERS[segment]
        yield "names", f"{who} has `{segment}.` ({by}) inside {_share(below, names)}{example}"


def _common(chain: Chain) -> Iterable[tuple[str, str]]:
    segments = dict.fromkeys(segment for _, segment in chain.common)
    if segments:
        listed = ", ".join(f"`{segment}.` ({WRAPPERS[segment]})" for segment in segments)
        yield "names", f"both sides have {listed}: nothing to change there"


def _share(some_names: Collection[str], names: Collection[str]) -> str:
    return f"{len(some_names)} of {len(names)} names"


def _counts(report: KeyReport) -> str:
    before, after, total = report.before[0], *report.after
    text = f"{before} of {total} as they are"
    if after == before:
        return text
    verb = {"tied": "with the tied ones", "adapter": "with its name put in"}.get(
        report.verdict, "renamed"
    )
    return f"{text}, {after} of {total} {verb}"


def _lists(report: KeyReport, best: Judgement) -> Iterable[tuple[str, str]]:
    if report.verdict == "ambiguous":
        return
    if report.verdict in ("nothing", "adapter"):
        yield "file", _first_names(best.candidate.side.entries)
        yield "model", _first_names([*report.missing, *report.buffers_missing])
        return
    if report.missing:
        yield "missing", f"{_count(report.missing, 'parameter')}: {some(_grouped(report.missing))}"
    if report.buffers_missing:
        names = report.buffers_missing
        yield "missing", f"{_count(names, 'buffer')}: {some(_grouped(names))}"
    if report.unexpected:
        names = report.unexpected
        yield "unexpected", f"{tensors(names)} of the file: {some(_grouped(names))}"
    for name, file, model in report.shape_mismatches[:6]:
        yield "shape", f"{name}: {_shape(file)} in the file, {_shape(model)} in the model"
    if len(report.shape_mismatches) > 6:
        yield "shape", f"and {len(report.shape_mismatches) - 6} more"
    for name, partner in report.tied.items():
        yield "tied", f"{name} is the same tensor as {partner} in the model: filled by it"
    reasons: dict[str, list[str]] = {}
    for name, why in report.left_out.items():
        reasons.setdefault(why, []).append(name)
    for why, left in reasons.items():
        yield "left out", f"{some(left)}: {why}"
    if report.other_parts:
        names = report.other_parts
        yield "left out", f"{tensors(names)} of other parts: {some(_grouped(names))}"


def _first_names(names: Collection[str]) -> str:
    return some(names, 4)


def _grouped(names: Collection[str]) -> list[str]:
    """Lists a few short names, or else the modules they are in."""
    if len(names) <= 6 and sum(map(len, names)) <= 160:
        return list(names)
    depth = 1
    groups: dict[str, int] = {}
    while depth < 4:
        groups = {}
        for name in names:
            start = ".".join(name.split(".")[:depth])
            groups[start] = groups.get(start, 0) + 1
        if len(groups) > 1:
            break
        depth += 1
    return [
        f"{start}.* ({count})" if count > 1 else next(n for n in names if n.startswith(start))
        for start, count in groups.items()
    ]


def _count(names: Collection[str], what: str) -> str:
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) if shape else "a single number"
