"""Correct resumes: the audit raises no alarm in any of them."""

import pytest

from checkpoints.faults.dresses import decorated


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def same(job, folder):
    return job("correct.py", folder=folder)


@pytest.mark.parametrize(
    "name", decorated("correct.py", "resume") + decorated("correct.py", "anywhere")
)
def test_no_alarm_on_the_same_ranks(same, name):
    for rank in same:
        assert rank[name]["found"] is None, rank[name]["words"]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_no_alarm_on_another_number_of_ranks(job, folder, same, ranks):
    for said in job("correct.py", ranks=ranks, folder=folder):
        assert len(said) == len(decorated("correct.py", "anywhere"))
        for line in said.values():
            assert line["found"] is None, line["words"]
    changed = said["saved_and_loaded_by_this_package"]["words"]
    assert f"2 ranks then, {ranks} now" in changed
