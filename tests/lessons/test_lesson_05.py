"""Lesson 05: its claims fail without their faults, and its checks tell wrong answers from right."""

from __future__ import annotations

import re
from collections import OrderedDict
from copy import copy, deepcopy
from pathlib import Path
from types import MappingProxyType

import pytest
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from lesson_cells import changed, run_of, run_until, source, verdict
from lesson_files import lesson, solution
from loadwrap.lessons.lesson_05 import check_cures, check_files, check_strip

pytestmark = pytest.mark.usefixtures("beside_the_lessons")


def test_a_file_saved_without_the_wrapper_has_no_prefix() -> None:
    inside = {"save-run": ("ddp.state_dict()", "ddp.module.state_dict()")}
    assert run_until(lesson(5), "table", inside) == ["error", "attribute", "table"]


def test_a_plain_load_must_reach_every_rank() -> None:
    one_rank = ('"runs/bare.pt"]', '"runs/bare.pt", "--order", "wrap_then_load_on_rank0"]')
    assert run_until(lesson(5), "cures-numbers", {"cures-numbers": one_rank}) == ["cures-numbers"]


def test_the_cures_do_no_damage_without_their_faults() -> None:
    consume = "consume_prefix_in_state_dict_if_present(weights"
    careful = {
        "cures": ("if dist.get_rank() == 0:", "if True:"),
        "replace": ('k.replace("module.", "")', 'k.removeprefix("module.")'),
        "versions-lost": ("OrderedDict(short)", "short"),
        "consume": (consume, f'if first.startswith("module."):\n        {consume}'),
        "race": ("    torch.save(state, path)", "    one_rank(state, path)"),
    }
    failed = ["cures-numbers", "replace", "versions-lost", "consume", "race-count"]
    assert run_until(lesson(5), "race-count", careful) == failed


def test_each_error_has_a_cure_that_loads(capsys) -> None:
    right = dict(zip("ABCD", (
        "load into ddp.module",
        "take the entry 'model'",
        "read the file again and rename nothing",
        "remove one prefix",
    ), strict=True))  # fmt: skip
    assert "which cure is for A" in verdict(capsys, check_cures, dict.fromkeys("ABCD"))
    for other in (None, list(right.values()), set(right)):
        assert f"a {type(other).__name__}: make it a dict" in verdict(capsys, check_cures, other)
    swapped = {**right, "A": right["D"], "D": right["A"]}
    assert "A: after 'remove one prefix' the load fails" in verdict(capsys, check_cures, swapped)
    for letter in "ABCD":
        for cure in set(right.values()) - {right[letter]}:
            said = verdict(capsys, check_cures, {**right, letter: cure})
            assert said.startswith(f"Not yet: {letter}: after")
            who = {"A": "DistributedDataParallel", "C": "Detector"}.get(letter, "DigitNet")
            assert who in said or "KeyError: 'model'" in said
    assert "none of the four" in verdict(capsys, check_cures, {**right, "B": ["model"]})
    assert "none of the four" in verdict(capsys, check_cures, {**right, "C": "strict=False"})
    assert verdict(capsys, check_cures, right).startswith("Yes")
    assert verdict(capsys, check_cures, OrderedDict(reversed(right.items()))).startswith("Yes")


def cut_once(weights, model):
    return OrderedDict((k.removeprefix("module."), v) for k, v in weights.items())


def consumed(weights, model):
    consume_prefix_in_state_dict_if_present(weights, "module.")
    return weights


def while_prefixed(weights, model):
    weights = deepcopy(weights)
    while all(name.startswith("module.") for name in weights):
        consume_prefix_in_state_dict_if_present(weights, "module.")
    return weights


def trusting(weights, model):
    weights = deepcopy(weights)
    wanted = set(model.state_dict())
    while set(weights) != wanted and all(name.startswith("module.") for name in weights):
        consume_prefix_in_state_dict_if_present(weights, "module.")
    return weights


def shallow(weights, model):
    """Right, but for one thing: copy.copy() shares the versions with the caller's dict."""
    wanted, weights = set(model.state_dict()), copy(weights)
    while set(weights) != wanted:
        if {name[:7] for name in weights} != {"module."}:
            raise KeyError
        consume_prefix_in_state_dict_if_present(weights, "module.")
    return weights


def hanging(weights, model):
    """Right, but for one thing: all() of no names is true."""
    weights = deepcopy(weights)
    while weights.keys() != model.state_dict().keys():
        if not all(name.startswith("module.") for name in weights):
            raise KeyError
        consume_prefix_in_state_dict_if_present(weights, "module.")
    return weights


def zeroing(weights, model):
    given = borrowed(deepcopy(weights), model)
    for value in weights.values():
        value.zero_()
    return given


def refusing_late(weights, model):
    """It refuses what does not fit, and has changed it by then."""
    try:
        return borrowed(weights, model)
    except KeyError:
        consume_prefix_in_state_dict_if_present(weights, "module.")
        raise


def borrowed(weights, model):
    """Another way: look how deep the names lie, and let the model lend its versions."""
    own = model.state_dict()
    for depth in range(5):
        prefix = "module." * depth
        if {prefix + name for name in own} == set(weights):
            found = OrderedDict((name, weights[prefix + name]) for name in own)
            found._metadata = own._metadata  # type: ignore[attr-defined]
            return found
    raise KeyError("no number of prefixes makes the names equal")


def picking(weights, model):
    """It takes what the model asks for, wherever it lies, and drops the rest without a word."""
    own = model.state_dict()
    for depth in reversed(range(5)):
        prefix = "module." * depth
        if weights and all(prefix + name in weights for name in own):
            found = OrderedDict((name, weights[prefix + name]) for name in own)
            found._metadata = own._metadata  # type: ignore[attr-defined]
            return found
    raise KeyError("some names are missing")


def filtering(weights, model):
    """It compares the sets of names, but looks at those with the prefix only."""
    own = model.state_dict()
    for depth in range(5):
        prefix = "module." * depth
        names = [name for name in weights if name.startswith(prefix)]
        if {name.removeprefix(prefix) for name in names} == set(own):
            found = OrderedDict((name, weights[prefix + name]) for name in own)
            found._metadata = own._metadata  # type: ignore[attr-defined]
            return found
    raise KeyError("no prefix makes the names equal")


def picking_bare(weights, model):
    """It refuses what is too much, but not where there is no prefix to remove."""
    own = model.state_dict()
    if set(own) <= set(weights):
        found = OrderedDict((name, weights[name]) for name in own)
        found._metadata = own._metadata  # type: ignore[attr-defined]
        return found
    return borrowed(weights, model)


def zeroing_late(weights, model):
    """It refuses what does not fit, and what it refuses is zero by then."""
    try:
        return borrowed(weights, model)
    except KeyError:
        for value in weights.values():
            value.zero_()
        raise


def read_only(weights, model):
    """Right but for the versions, in a container that cannot be copied or changed."""
    return MappingProxyType(borrowed(weights, model))


def positional(weights, model):
    if len(weights) != len(model.state_dict()):
        raise KeyError
    named = OrderedDict(zip(model.state_dict(), reversed(weights.values()), strict=True))
    named._metadata = model.state_dict()._metadata  # type: ignore[attr-defined]
    return named


def test_the_prefix_is_removed_and_nothing_else(capsys) -> None:
    def say(strip) -> str:
        return verdict(capsys, check_strip, strip)

    def solved(identity: str):
        names: dict = {"consume_prefix_in_state_dict_if_present": consumed.__globals__[
            "consume_prefix_in_state_dict_if_present"]}  # fmt: skip
        exec(source((lesson if identity == "stub" else solution)(5), "strip"), names)
        return names["strip"]

    assert "versions" in say(solved("stub"))
    assert "a net with a child module, saved without" in say(consumed)
    assert "versions" in say(cut_once)
    assert "saved without the wrapper" in say(while_prefixed)
    assert "refuses nothing" in say(trusting)
    assert "cannot be loaded" in say(positional)
    assert "raised TypeError" in say(lambda weights: weights)
    assert "not the weights" in say(lambda weights, model: list(weights))
    assert "a plain net, saved from the wrapper: the versions in the caller's" in say(shallow)
    assert "an empty file: it never ends" in say(hanging)
    more = "with all that the model has, and more"
    assert f"another net, {more}: it returns" in say(picking)
    assert f"another net, {more}, saved without the wrapper: it returns" in say(picking_bare)
    assert f"on some names only, {more}: it returns" in say(filtering)
    assert "a file that lacks a tensor: the caller's own tensors" in say(zeroing_late)
    listed = say(lambda weights, model: {k: v.tolist() for k, v in model.state_dict().items()})
    assert "its conv1.weight is a list, not a tensor" in listed
    assert "its conv1.weight is a tuple, not a tensor" in say(
        lambda weights, model: dict.fromkeys(model.state_dict(), ())
    )
    assert "versions of its layers are lost" in say(read_only)
    assert "the caller's own tensors" in say(zeroing)
    assert "a file that lacks a tensor: the caller's own dict" in say(refusing_late)
    assert say(solved("right")).startswith("Yes")
    assert say(borrowed).startswith("Yes")


def test_the_files_have_one_writer(capsys) -> None:
    stub, right = (source(book(5), "files") for book in (lesson, solution))
    guard = "dist.get_rank() == 0"

    def say(script: str) -> str:
        return verdict(capsys, check_files, run_of(script), "runs")

    counts = re.findall(r"≈ (\d+) ([^,.]+)", say(stub))
    assert [kind for _, kind in counts] == ["rank 0's", "another rank's", "mixed", "unreadable"]
    assert sum(int(count) for count, _ in counts) == 10 > int(counts[0][0])
    assert "≈ 10 another rank's" in say(changed(right, (guard, "dist.get_rank() == 3")))
    assert "0 of its 10 files" in say(changed(right, (guard, "False")))
    assert "the job failed" in say(changed(right, (guard, "dist.rank() == 0")))
    assert say(right).startswith("Yes")
    assert say(changed(stub, ("SLURM_PROCID", "RANK"))).startswith("Yes")
    local = say(changed(stub, ("SLURM_PROCID", "LOCAL_RANK")))
    assert local.startswith("Not yet: here all is well") and "4 machines" in local


def test_the_files_are_those_of_the_script(capsys) -> None:
    right = source(solution(5), "files")
    first = run_of(right).wait()
    files = sorted(Path("runs").glob("step-*.pt"))
    stamps = [file.stat().st_mtime_ns for file in files]
    assert len(files) == 10

    silent = run_of(changed(right, ("dist.get_rank() == 0", "False")))
    assert "wrote 0 of its 10 files" in verdict(capsys, check_files, silent, "runs")
    for _ in range(2):  # and again: no check takes another one's files away
        assert verdict(capsys, check_files, first, "runs").startswith("Yes")
    assert [file.stat().st_mtime_ns for file in files] == stamps


def test_the_script_runs_on_the_ranks_of_the_lesson(capsys) -> None:
    alone = changed(
        source(lesson(5), "files"),
        ("--nproc-per-node 4", "--nproc-per-node 1"),
        ('int(os.environ.get("SLURM_PROCID", 0)) == 0', "True"),
    )
    said = verdict(capsys, check_files, run_of(alone), "runs")
    assert said == "Not yet: --nproc-per-node is 1 here: run the script on 4 ranks.\n"


def test_the_script_finds_what_lies_beside_the_notebook(capsys) -> None:
    Path("guard.py").write_text(
        "import torch.distributed as dist\n\n\ndef is_main():\n    return dist.get_rank() == 0\n"
    )
    script = changed(
        source(solution(5), "files"),
        ("import os\n", "import os\n\nfrom guard import is_main\n"),
        ("def is_main():\n    return dist.get_rank() == 0\n", ""),
    )
    assert verdict(capsys, check_files, run_of(script), "runs").startswith("Yes")
