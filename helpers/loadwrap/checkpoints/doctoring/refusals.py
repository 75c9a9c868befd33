"""What ``weights_only`` refuses, and the safe way round each."""

from __future__ import annotations

import pickletools

from ..formats.checkpoint import Checkpoint
from ..formats.sharded import PREFIX
from ..formats.values import Refusal, Refused, walk
from ..formats.words import plural, some
from .weights import find_weights

# Whatever lies in these modules runs commands, opens files or imports code when it is called.
_DANGEROUS_MODULES = {
    "os", "posix", "nt", "subprocess", "sys", "shutil", "socket", "pty", "runpy", "importlib",
    "ctypes", "webbrowser", "code", "codeop", "pdb", "timeit", "bdb", "pip", "asyncio", "commands",
    "platform", "multiprocessing", "pickle", "marshal", "operator", "urllib", "requests", "http",
}  # fmt: skip
_DANGEROUS_NAMES = {
    "torch.load", "torch.hub.load", "torch.jit.load", "torch.package.package_importer",
    "numpy.load", "numpy.f2py", "numpy.testing", "joblib.load", "dill.loads", "cloudpickle.loads",
    "torch.storage._load_from_bytes", "torch.utils.cpp_extension.load", "builtins.exec",
    # builtins.open under the names by which pickle calls it
    "io.open", "io.open_code", "io.FileIO", "_io.open", "_io.open_code", "_io.FileIO",
    "codecs.open",
}  # fmt: skip
_DANGEROUS_BUILTINS = {
    "eval", "exec", "compile", "open", "getattr", "setattr", "__import__", "globals", "input",
    "breakpoint", "apply", "map", "filter", "execfile", "delattr", "vars",
}  # fmt: skip

_ALLOWABLE = 20  # more names than that nobody can vouch for
_MOST = 200  # refused names that are looked at one by one

# What Python writes in protocols 0 and 1, and not in 2.
_OLD = {"INT", "LONG", "FLOAT", "STRING", "UNICODE", "LIST", "DICT", "GET", "PUT", "PERSID"}
_OPCODES = {"LONG4": " (an integer of more than 255 bytes)"}

# Plain data: what it is, and how to store it so that nothing refuses it.
_PLAIN = {
    "argparse.Namespace": "save vars(args) instead",
    "pathlib.PosixPath": "save str(path) instead",
    "pathlib._local.PosixPath": "save str(path) instead",
    "pathlib.WindowsPath": "save str(path) instead",
    "pathlib._local.WindowsPath": "save str(path) instead",
    "collections.defaultdict": "save dict(...) instead",
    "datetime.datetime": "save its isoformat() instead",
    "builtins.slice": "save its numbers instead",
    "omegaconf.dictconfig.DictConfig": "save OmegaConf.to_container(cfg) instead",
    "easydict.EasyDict": "save dict(...) instead",
}


def dangerous(name: str) -> bool:
    """Whether a name is one by which a pickle runs commands or other code."""
    module, _, last = name.rpartition(".")
    if module == "builtins":
        return last in _DANGEROUS_BUILTINS
    if any(name == one or name.startswith(f"{one}.") for one in _DANGEROUS_NAMES):
        return True
    return name.split(".")[0] in _DANGEROUS_MODULES


def refusal_lines(checkpoint: Checkpoint) -> list[str]:
    """A few lines on what is refused, where it is, and what to do."""
    refusals = checkpoint.refusals
    modules = {one.pickled for one in find_weights(checkpoint.tree) if one.pickled}
    lines: list[str] = []
    attack = [one for one in refusals if dangerous(one.name)]
    if attack:
        places = [f"{one.name} ({one.where or 'called while loading'})" for one in attack]
        names = some(places, 5)
        lines.append(
            "NOT SAFE: loaded with weights_only=False it could run code of its author's: "
            f"{names}. Do not load it; nothing of it was run here."
        )
    if checkpoint.kind == "torchscript":
        lines.append(
            "torch.load refuses a TorchScript archive: it holds a program. If you trust where it "
            'comes from: torch.jit.load(path, map_location="cpu").state_dict()'
        )
        return lines
    rest = [one for one in refusals if not dangerous(one.name)][:_MOST]
    sharded = [one for one in rest if one.name.startswith(PREFIX)]
    if sharded:
        rest = [one for one in rest if not one.name.startswith(PREFIX)]
        lines.append(
            f"It holds sharded tensors (DTensor, first at {sharded[0].where}): torch.load takes "
            "them after `import torch.distributed.tensor`, and each file holds one rank's shards."
        )
    outer = _outermost(rest)
    for one in outer[:5]:
        lines.append(
            f"torch.load (weights_only=True, the default) refuses {one.name} at "
            f"{one.where or 'a place that is thrown away again'}: {_cure(one, modules)}."
        )
    if len(outer) > 5:
        lines.append(f"It refuses {plural(len(outer) - 5, 'more class')}, listed with --json.")
    if outer and not attack and not any(one.name in modules for one in outer):
        filled = _filled(checkpoint)
        if filled:
            lines.append(
                f"Allowing it does not help: weights_only fills no {filled}, even an allowed one. "
                "If you trust the file, load it once with weights_only=False and save it again as "
                "plain dicts and lists; --fix OUT takes the weights out as they are."
            )
        else:
            lines.append(_allow(checkpoint))
    if not refusals and checkpoint.opcode and not _of_protocol(checkpoint):
        lines.append(
            f"torch.load (weights_only=True) refuses the pickle opcode {checkpoint.opcode}"
            f"{_OPCODES.get(checkpoint.opcode, '')}, of whatever protocol the file is. If you "
            "trust the file, load it once with weights_only=False, and save its weights alone."
        )
    elif not refusals and checkpoint.opcode:
        lines.append(
            f"torch.load (weights_only=True) reads pickle protocol 2 alone; this file is protocol "
            f"{checkpoint.protocol} (first refused: {checkpoint.opcode}). Save it again without "
            "pickle_protocol=, from where it can be loaded."
        )
    return lines


def _of_protocol(checkpoint: Checkpoint) -> bool:
    """Whether the refused opcode is there because of the protocol that the file was saved with."""
    if checkpoint.protocol < 2:
        return checkpoint.opcode in _OLD
    return any(one.name == checkpoint.opcode and one.proto > 2 for one in pickletools.opcodes)


def _filled(checkpoint: Checkpoint) -> str:
    """The first class whose objects are filled item by item, as subclasses of dict and list are."""
    for _, value in walk(checkpoint.tree):
        if isinstance(value, Refused) and (value.entries or value.items):
            return value.name
    return ""


def _outermost(refusals: list[Refusal]) -> list[Refusal]:
    """Leaves out what lies inside something that is refused itself."""
    kept: list[Refusal] = []
    for one in sorted(refusals, key=lambda one: (one.where == "", len(one.where))):
        inside = any(
            one.where.startswith((f"{other.where}.", f"{other.where}["))
            for other in kept
            if other.where
        )
        if not (inside or (not one.where and kept)):
            kept.append(one)
    return kept


def _cure(refusal: Refusal, modules: set[str]) -> str:
    name = refusal.name
    if name.startswith("numpy"):
        return "a NumPy value; save .item() or torch.from_numpy(...) instead"
    if name in _PLAIN:
        return f"harmless data; {_PLAIN[name]}"
    if name in modules:
        return (
            "a whole pickled module, not its weights; loading it needs its class and runs code. "
            "Save module.state_dict() instead; --fix OUT takes the weights out without running it"
        )
    if name.startswith("persistent id"):
        return "a reference that no version of torch writes"
    return (
        "a class or function that would be called while loading; save plain numbers, strings, "
        "lists and dicts instead"
    )


def allowance(checkpoint: Checkpoint) -> tuple[str, str] | None:
    """What to import and which names to allow so that torch.load takes the file.

    None if nothing has to be allowed, or if allowing does not help or is not safe.
    """
    names = [one.name for one in checkpoint.refusals[: _ALLOWABLE + 1]]
    if len(names) > _ALLOWABLE:
        return None
    modules = {one.pickled for one in find_weights(checkpoint.tree)}
    unfit = any(dangerous(name) or name in modules or " " in name for name in names)
    if not names or unfit or checkpoint.kind == "torchscript" or _filled(checkpoint):
        return None
    imports = sorted({name.rpartition(".")[0] for name in names} - {"builtins", ""})
    listed = [name.removeprefix("builtins.") for name in names]
    if "numpy.dtype" in listed:
        # A dtype is of a class of its own for each type of number.
        listed.append('*{type(numpy.dtype(c)) for c in "?bBhHiIlLqQefdFD"}')
    return (f"import {', '.join(imports)}" if imports else "", ", ".join(listed))


def _allow(checkpoint: Checkpoint) -> str:
    allowed = allowance(checkpoint)
    if allowed is None:
        return (
            "These are not names to allow one by one. If you trust the file, load it once with "
            "weights_only=False and save it again as plain numbers, strings, lists and dicts."
        )
    imports = f"{allowed[0]}; " if allowed[0] else ""
    return (
        "To load it all the same, if you trust these names: "
        f"{imports}torch.load(path) inside `with torch.serialization.safe_globals([{allowed[1]}]):`"
    )
