"""Spells a rename as one line of Python that needs nothing but what the reader already has.

Each way of writing it is tried on every name, and the simplest that gives exactly the rename is
taken. Where none does, the line calls this package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .blocks import Rule
from .container import Candidate
from .rename import Renaming
from .segments import Path, dotted

ROOT = "ckpt"
"""What the line calls the loaded checkpoint; the model is `model`."""


@dataclass(frozen=True)
class Plan:
    """What the line has to do."""

    candidate: Candidate
    renaming: Renaming
    prefix: str = ""
    """Removed, with the wrappers in it, from the front of the names."""
    inner: Path = ()
    """The attributes that lead from the model to the module that is really loaded."""
    removed: frozenset[str] = frozenset()
    """Segments that vanish somewhere."""
    insertions: tuple[tuple[Path, Path], ...] = ()
    """Paths of the file's names that become longer or shorter ones."""
    rules: tuple[Rule, ...] = ()
    strict: bool = True
    adapter: str = ""
    """The adapter's name in memory, which the file's names lack."""
    dropped: tuple[str, ...] = field(default=())
    """Everything in the entry that is not loaded."""


def line(plan: Plan, package: bool = True) -> str:
    """Returns the line that loads the weights.

    Args:
        plan: What it has to do.
        package: Whether it may call this package; if not, and nothing shorter will do, it is "".
    """
    source = plan.candidate.code(ROOT)
    inner, pairs = _inner(plan)
    call = "".join(f".{name}" for name in ("model", *inner))[1:] + ".load_state_dict"
    strict = "" if plan.strict else ", strict=False"
    condition = _condition(plan)
    found = next(
        (
            (code, modules)
            for code, modules, apply in _expressions(plan, pairs)
            if all(apply(name) == target for name, target in pairs.items())
        ),
        None,
    )
    if found is None or condition is None:
        if not package:
            return ""
        consent = ", subset=True" if plan.renaming.other_parts else ""
        return (
            "from loadwrap.checkpoints import explain_keys; "
            f"model.load_state_dict(explain_keys({ROOT}, model).rename({source}{consent}){strict})"
        )
    code, modules = found
    aliases = {
        target.removeprefix(dotted(inner)): name for target, name in plan.renaming.aliases.items()
    }
    extra = "".join(f", {_q(target)}: {source}[{_q(name)}]" for target, name in aliases.items())
    if code == "key" and not condition:
        weights = f"{{**{source}{extra}}}" if extra else source
    else:
        weights = f"{{{code}: value for key, value in {source}.items(){condition}}}"
        weights = f"{{**{weights}{extra}}}" if extra else weights
    return f"{modules}{call}({weights}{strict})"


def _inner(plan: Plan) -> tuple[Path, dict[str, str]]:
    """Loads into the module inside the wrappers if that spares a rename."""
    pairs = plan.renaming.pairs
    start = dotted(plan.inner)
    names = (*pairs.values(), *plan.renaming.aliases)
    usable = (
        start
        and all(name.isidentifier() for name in plan.inner)
        and all(name.startswith(start) for name in names)
    )
    if not usable:
        return (), dict(pairs)
    return plan.inner, {name: target.removeprefix(start) for name, target in pairs.items()}


Spelling = tuple[str, str, Callable[[str], str]]


def _expressions(plan: Plan, pairs: Mapping[str, str]) -> Iterator[Spelling]:
    yield "key", "", lambda key: key
    name, target = next(iter(pairs.items()))
    removed = name.removesuffix(target) if name.endswith(f".{target}") else plan.prefix
    added = target.removesuffix(name) if target.endswith(f".{name}") else dotted(plan.inner)
    starts = list(dict.fromkeys(("", removed, plan.prefix)))
    for old in starts:
        for new in dict.fromkeys(("", added)):
            yield _prefixed("key", old, new)
    segments = sorted(plan.removed)
    for old in starts:
        for new in dict.fromkeys(("", added)):
            if segments:
                yield _filtered(old, new, segments)
    for old in starts:
        yield from _substituted(plan, old)
    if plan.adapter:
        yield _adapted(plan.adapter)


def _prefixed(key: str, old: str, new: str) -> Spelling:
    code = f"{key}.removeprefix({_q(old)})" if old else key
    return (f"{_q(new)} + {code}" if new else code), "", lambda name: new + name.removeprefix(old)


def _filtered(old: str, new: str, segments: list[str]) -> Spelling:
    test = f"!= {_q(segments[0])}"
    if len(segments) > 1:
        test = f"not in ({', '.join(map(_q, segments))})"
    stripped = _prefixed("key", old, "")[0]
    code = f'".".join(part for part in {stripped}.split(".") if part {test})'
    if new:
        code = f"{_q(new)} + {code}"

    def apply(name: str) -> str:
        parts = name.removeprefix(old).split(".")
        return new + ".".join(part for part in parts if part not in segments)

    return code, "", apply


def _substituted(plan: Plan, old: str) -> Iterator[Spelling]:
    start = _prefixed("key", old, "")[0]
    changes: list[tuple[str, str]] = []
    for rule in plan.rules:
        changes.append(_pattern(rule.where, rule.old, rule.new))
    for before, after in plan.insertions:
        changes.append(("^" + re.escape(dotted(before)), dotted(after)))
    if not 0 < len(changes) <= 2:
        return
    code = start
    for pattern, replacement in changes:
        code = f"re.sub({_r(pattern)}, {_r(replacement)}, {code})"

    def apply(name: str) -> str:
        name = name.removeprefix(old)
        for pattern, replacement in changes:
            name = re.sub(pattern, replacement, name)
        return name

    yield code, "import re; ", apply


def _adapted(name: str) -> Spelling:
    pattern, replacement = r"(\.lora_\w+)(?=\.|$)", rf"\g<1>.{name}"
    code = f"re.sub({_r(pattern)}, {_r(replacement)}, key)"
    return code, "import re; ", lambda key: re.sub(pattern, replacement, key)


def _pattern(where: Path, old: Path, new: Path) -> tuple[str, str]:
    def spell(path: Path) -> str:
        return "".join((r"\d+" if part == "#" else re.escape(part)) + r"\." for part in path)

    if where and "#" not in where:
        return f"^{spell((*where, *old))}", dotted((*where, *new))
    if where:
        return f"^({spell(where)}){spell(old)}", r"\g<1>" + dotted(new)
    return f"^{spell(old)}", dotted(new)


def _condition(plan: Plan) -> str | None:
    """Spells which names of the entry to take: nothing if all, None if it cannot be short."""
    left = {*plan.dropped, *plan.renaming.left_out, *plan.renaming.other_parts}
    if not left:
        return ""
    kept = plan.renaming.pairs
    if plan.prefix and all(name.startswith(plan.prefix) for name in kept):
        inside = {name for name in left if name.startswith(plan.prefix)}
        starts_so = f" if key.startswith({_q(plan.prefix)})"
        if len(inside) < len(left):
            if not inside:
                return starts_so
            further = _exceptions(inside, kept)
            return None if further is None else f"{starts_so} and{further.removeprefix(' if')}"
    return _exceptions(left, kept)


def _exceptions(left: set[str], kept: Mapping[str, str]) -> str | None:
    if len(left) == 1:
        return f" if key != {_q(*left)}"
    if len(left) <= 4:
        return f" if key not in ({', '.join(map(_q, sorted(left)))})"
    starts = sorted({f"{name.split('.')[0]}." for name in left})
    if len(starts) <= 4 and not any(name.startswith(tuple(starts)) for name in kept):
        if all(name.startswith(tuple(starts)) for name in left):
            listed = ", ".join(map(_q, starts))
            return f" if not key.startswith({f'({listed})' if len(starts) > 1 else listed})"
    return None


def _q(text: str) -> str:
    return json.dumps(text) if text.isprintable() and text.isascii() else repr(text)


def _r(text: str) -> str:
    return f'r"{text}"' if "\\" in text and '"' not in text else _q(text)
