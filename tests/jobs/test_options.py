"""torchrun's options: the list is torchrun's, and every mistake gets one sentence."""

import argparse

import pytest

from loadwrap import LaunchError, torchrun
from loadwrap.jobs import options


def parser_options():
    from torch.distributed.run import get_args_parser

    for action in get_args_parser()._actions:
        for text in action.option_strings:
            if text.startswith("--"):
                yield text.lstrip("-").replace("-", "_"), action


def test_the_options_are_those_of_torchruns_parser():
    found = {
        name: action.nargs != 0 and not isinstance(action, argparse._StoreTrueAction)
        for name, action in parser_options()
        if name != "help"
    }
    assert options.OPTIONS == found
    assert options.WHOLE.keys() == {name for name, action in parser_options() if action.type is int}


def test_every_option_reaches_the_command_line_in_torchruns_words(write):
    write("")
    launch = options.check(
        "script.py", ["--x", 1, 2.5], {"nproc_per_node": 2, "max_restarts": 1, "role": "a b"},
        None, True,
    )  # fmt: skip
    assert launch.command == (
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node 2 "
        "--max-restarts 1 --role 'a b' script.py --x 1 2.5"
    )
    from torch.distributed.run import parse_args

    args = parse_args(launch.argv())
    assert (args.nproc_per_node, args.max_restarts, args.role) == ("2", 1, "a b")
    assert (args.standalone, args.training_script) == (True, "script.py")
    assert args.training_script_args == ["--x", "1", "2.5"]


BAD_CALLS = {
    "no script": (("nothing.py",), {}, "There is no script nothing.py, looked for in "),
    "nearly its name": (("scrypt.py",), {}, "(did you mean script.py?)"),
    "a folder": (("folder",), {}, "folder is a folder, not a script."),
    "a syntax error": (("broken.py",), {}, "broken.py has a syntax error in line 2: "),
    "null bytes": (("nulls.py",), {}, "nulls.py is not a Python script: "),
    "a function": ((print,), {}, "not the function print"),
    "no text": ((3,), {}, "The script must be a path, not 3."),
    "an empty name": (("",), {}, "The script must be a path, not ''."),
    "an argument": (("script.py", [1]), {}, "must be text or a number, not [1]"),
    "0 ranks": (("script.py",), {"nproc_per_node": 0}, "nproc_per_node=0 starts no rank"),
    "-1 ranks": (("script.py",), {"nproc_per_node": -1}, "nproc_per_node=-1 starts no rank"),
    "x ranks": (("script.py",), {"nproc_per_node": "x"}, "nproc_per_node=x starts no rank"),
    "1.5 ranks": (("script.py",), {"nproc_per_node": 1.5}, "nproc_per_node=1.5 starts no rank"),
    "10**6 ranks": (("script.py",), {"nproc_per_node": 10**6}, "1000000 ranks need at least "),
    "near an option": (("script.py",), {"nproc": 2}, "did you mean nproc_per_node=?"),
    "a slip": (("script.py",), {"max_restart": 2}, "did you mean max_restarts=?"),
    "no option": (("script.py",), {"qqqq": 2}, "torchrun has no option qqqq="),
    "our folder": (("script.py",), {"log_dir": "x"}, "log_dir= is taken: "),
    "a switch": (("script.py",), {"standalone": "yes"}, "standalone= is a switch"),
    "no value": (("script.py",), {"max_restarts": True}, "max_restarts= needs a value"),
    "no time": (("script.py",), {"stall_timeout": 0}, "stall_timeout=0 must be "),
    "a pattern": (("script.py",), {"pattern": "("}, "pattern"),
    "a pattern without names": (("script.py",), {"pattern": "loss"}, "pattern"),
    "restarts": (("script.py",), {"max_restarts": "x"}, "max_restarts=x "),
    "negative restarts": (("script.py",), {"max_restarts": -1}, "max_restarts=-1 "),
    "nodes": (("script.py",), {"nnodes": "x"}, "nnodes=x "),
    "a port": (("script.py",), {"master_port": 700000}, "master_port=700000 "),
    "a null in a word": (("script.py", "a\0b"), {}, "null"),
    "a null in env": (("script.py",), {"env": {"A": "a\0b"}}, "null"),
    "no name in env": (("script.py",), {"env": {"A=B": "1"}}, "A=B"),
}  # fmt: skip


@pytest.mark.parametrize("call", BAD_CALLS)
def test_a_bad_call_is_one_sentence_and_leaves_nothing(call, write, tmp_path):
    write("print(1)")
    write("x = 1\nif x\n", "broken.py")
    (tmp_path / "nulls.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "folder").mkdir()
    arguments, keywords, sentence = BAD_CALLS[call]
    with pytest.raises(LaunchError) as told:
        torchrun(*arguments, **{"live": False, **keywords})
    assert sentence in str(told.value)
    assert len(str(told.value).splitlines()) == 1
    assert str(told.value)[-1] in ".?"
    assert not (tmp_path / "runs").exists()
    # In a notebook, that is all there is to see.
    assert told.value._render_traceback_() == [f"LaunchError: {told.value}"]


def test_a_rank_cannot_start_a_job(write, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LaunchError, match="a rank of a job already"):
        torchrun(write("print(1)"))
