"""The command line of ``loadwrap doctor``."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Says what a checkpoint is, what lies in it, what a resume from it would lack, and, given a model
or another file, whether its weights fit and which line of code cures it. Nothing in the file is
executed: neither a pickle nor anything it names. Only headers are read, so the answer comes at
once for any size (--deep reads every byte).
"""

EXAMPLES = """\
examples:
  loadwrap doctor last.pt                        what is in it? can it be resumed from?
  loadwrap doctor last.pt --model train:Net      does it fit the class Net in train.py?
  loadwrap doctor last.pt --model net.py:build   ... what the function build() in net.py makes?
  loadwrap doctor last.pt --like good.pt         does it have the names and shapes of good.pt?
  loadwrap doctor --error slurm-1234.out         a load failed: why? (the log alone; - is stdin)
  loadwrap doctor last.pt --model train:Net --fix weights.pt
                                                 write the weights under the model's names
  loadwrap doctor last.pt --deep                 is every byte the one that was written?
  loadwrap doctor runs/step_100/                 a folder: Hugging Face shards, DeepSpeed, Megatron,
                                                 torch.distributed.checkpoint

--model runs your code to build the model, in a process of its own in this folder, on the meta
device: no memory, no GPU. The callable takes no arguments; if yours does, write a function
without any that calls it.

exit codes:
  0  the weights fit as they are (without --model or --like: the file is readable), or --fix wrote
     weights that do
  1  a mismatch: named, with the line that cures it, or why none does
  2  not readable, or not safe to read: cut, damaged, no checkpoint, or torch.load refuses it
"""


def parser(program: str) -> argparse.ArgumentParser:
    """The parser, for a program called ``loadwrap doctor`` or ``python -m loadwrap.doctor``."""
    made = argparse.ArgumentParser(
        prog=program,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("file", nargs="?", metavar="FILE", help="a checkpoint: a file or a folder")
    against = made.add_mutually_exclusive_group()
    against.add_argument(
        "--model",
        metavar="MODULE:CALLABLE",
        help="compare with the model that this builds, such as train:Net or net.py:build",
    )
    against.add_argument("--like", metavar="FILE", help="compare with the weights of another file")
    against.add_argument(
        "--error", metavar="LOG", help="read a load error out of a log instead of a checkpoint"
    )
    made.add_argument("--json", action="store_true", help="answer with one JSON object")
    made.add_argument(
        "--fix", metavar="OUT", help="write the weights under the names that fit to a new file"
    )
    made.add_argument(
        "--force", action="store_true", help="let --fix replace an existing OUT, never FILE itself"
    )
    made.add_argument(
        "--subset",
        action="store_true",
        help="let --fix leave behind what belongs to other networks than the model",
    )
    made.add_argument(
        "--deep", action="store_true", help="read every byte and compare its checksum"
    )
    made.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=120,
        help="how long building the model may take (default 120)",
    )
    return made


def check(options: argparse.Namespace, made: argparse.ArgumentParser) -> None:
    """Ends with a usage message for options that make no sense together."""
    if options.error is None and options.file is None:
        made.error("name a checkpoint (or a log, with --error)")
    if options.error is not None and (options.file or options.fix or options.deep):
        made.error("--error reads a log alone: give no FILE, --fix or --deep with it")
    if options.fix is not None and options.model is None and options.like is None:
        made.error("--fix needs names to write: give --model or --like as well")
    if (options.force or options.subset) and options.fix is None:
        made.error("--force and --subset belong to --fix")
    if not 0 < options.timeout < 1e6:
        made.error("--timeout takes a number of seconds")
