"""Runs one call of the doctor: reads, answers, returns the exit code."""

from __future__ import annotations

import argparse
import sys

from ..formats.values import CheckpointError
from ..formats.words import one_line, plural, shortened


def consult(options: argparse.Namespace) -> int:
    """Answers on stdout; an error is one sentence on stderr, never a traceback."""
    try:
        if options.error is not None:
            return _consult_log(options)
        from .examination import examine_file, write_fix

        if options.fix is not None:
            from .fix import keep_sources

            keep_sources(options.fix, filter(None, (options.file, options.like)))
        found = examine_file(
            options.file, options.model, options.like, options.deep, options.timeout
        )
        if options.fix is not None:
            write_fix(found, options.fix, options.force, options.subset)
        if options.json:
            from .asjson import as_json

            _say(as_json(found))
        else:
            from .report import write_report

            _say(write_report(found))
        return found.code
    except CheckpointError as error:
        return _refuse(options, str(error), error.reason)


def _refuse(options: argparse.Namespace, sentence: str, reason: str) -> int:
    if options.json:
        from .asjson import VERSION, dump

        path = options.file or options.error
        told = {"version": VERSION, "path": path, "exit": 2, "error": sentence, "reason": reason}
        _say(dump(told))
    else:
        print(_printable(shortened(one_line(sentence))), file=sys.stderr)
    return 2


def _say(text: str) -> None:
    try:
        print(_printable(text))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough (`| head`): stay silent at exit, too.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _printable(text: str) -> str:
    """Names come from the file: no control characters, nothing that the terminal cannot show."""
    shown = "".join(c if c == "\n" or c.isprintable() else "?" for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)


def _consult_log(options: argparse.Namespace) -> int:
    from ..keys.explain import explain_names
    from .asjson import VERSION, dump, error_as_dict
    from .errorlog import read_errors
    from .logfile import MOST, read_log
    from .othererrors import other_errors
    from .report import wrapped

    text, cut = read_log(options.error)
    errors = read_errors(text)
    others = other_errors(text)
    if not errors and not others:
        where = f"The end of {options.error} (its last {MOST >> 20} MB)" if cut else options.error
        raise CheckpointError(
            f"{where} holds no error of loading that is known here (no "
            "`Error(s) in loading state_dict`, no `Missing key(s)`).",
            "no error",
        )
    reports = [explain_names(*error.sides()) for error in errors]
    if options.json:
        told = {
            "version": VERSION,
            "path": options.error,
            "exit": 1,
            "errors": [error_as_dict(e, r) for e, r in zip(errors, reports, strict=True)],
            "others": others,
        }
        _say(dump(told))
        return 1
    blocks = []
    for error, report in zip(errors, reports, strict=True):
        ranks = f" on ranks {', '.join(map(str, sorted(error.ranks)))}" if error.ranks else ""
        head = f"{error.model or 'A model'}{ranks}: " + ", ".join(
            f"{number:,} {words}"
            for number, words in (
                (len(error.missing), "missing"),
                (len(error.unexpected), "unexpected"),
                (len(error.shapes), "of another shape"),
            )
            if number
        )
        lines = [head, *(wrapped(line) for line in str(report).splitlines())]
        if not error.silent:
            lines.append("(The log names only what does not match; how much does, it cannot say.)")
        if error.cut:
            lines.append("The log shows only a part of the names; what is said rests on that part.")
        if error.silent:
            lines.append("Nothing was raised: the run went on with what had loaded.")
        blocks.append("\n".join(lines))
    if len(blocks) > 1:
        blocks.insert(0, f"{plural(len(errors), 'different load error')} in {options.error}:")
    _say("\n\n".join([*blocks, *others]))
    return 1
