"""What a rank printed last is not always its traceback."""

from __future__ import annotations

from loadwrap.jobs.tracebacks import last_line, last_traceback, last_words

RAISED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]:     {}["the cause"]
[rank1]: KeyError: 'the cause'
"""
WITHOUT = "terminate called without an active exception\n"
AFTER = "terminate called after throwing an instance of 'c10::Error'\n  what():  gone\nframe #0\n"


def test_an_abort_at_the_exit_is_no_part_of_a_traceback() -> None:
    for abort in ("", WITHOUT, AFTER, "[W1129 18:50:59.123 socket.cpp:1] x\n" + WITHOUT):
        traceback = last_traceback("step 1\n" + RAISED + abort)
        assert traceback.splitlines()[-1] == "KeyError: 'the cause'"
        assert last_line(traceback) == "KeyError: 'the cause'"


def test_an_abort_alone_is_all_there_is_to_say() -> None:
    assert last_traceback(WITHOUT) == ""
    assert last_words("step 1\n" + WITHOUT) == WITHOUT.strip()


def test_a_message_of_many_lines_begins_with_its_exception() -> None:
    message = "RuntimeError: no resume here\n  and why:\n\nbuffers: differ by design"
    told = last_line(last_traceback(RAISED.replace("KeyError: 'the cause'", message)))
    assert told.splitlines()[0] == "RuntimeError: no resume here"
    assert told.splitlines()[-1] == "buffers: differ by design"


def test_a_frame_of_a_cell_is_a_frame() -> None:
    for cell in ("Cell In[8]", "the cell"):
        in_a_cell = RAISED.replace('File "train.py"', cell)
        assert last_line(last_traceback(in_a_cell)) == "KeyError: 'the cause'"
