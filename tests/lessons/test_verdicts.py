"""A check answers in one line, whatever the learner's answer is."""

from __future__ import annotations

import sys

import pytest

from loadwrap import JobStopped
from loadwrap.lessons.verdicts import judge, result_of


def said(capsys: pytest.CaptureFixture[str], check, *arguments) -> str:
    capsys.readouterr()
    judge(check, *arguments)
    text = capsys.readouterr().out
    assert text.startswith("Not yet: ") and text.count("\n") == 1, text
    return text


def leaves(answer: object) -> object:
    return sys.exit("refused")


def deep(answer: object) -> object:
    return deep(answer)


def test_an_answer_that_no_check_foresaw_gets_its_line(capsys) -> None:
    text = said(capsys, lambda answer: answer.wait(), None)
    assert "cannot judge such an answer (AttributeError: 'NoneType'" in text
    many = said(capsys, lambda answer: {}[answer], "a\nb" * 500)
    assert len(many) < 500


def test_a_job_that_was_stopped_gets_its_line(capsys) -> None:
    def stopped(answer: object) -> str:
        raise JobStopped("stopped")

    assert "stopped before its end" in said(capsys, stopped, None)


def test_a_function_that_leaves_or_never_ends_calling_itself_gets_its_line(capsys) -> None:
    text = said(capsys, lambda answer: result_of(answer, 1), leaves)
    assert "leaves raised SystemExit: refused" in text
    assert "RecursionError" in said(capsys, lambda answer: result_of(answer, 1), deep)
