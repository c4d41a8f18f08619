"""An answer that is late, or an error, is done without."""

from concurrent.futures import Future

import pytest

from worker.jobs.patience import within


@pytest.mark.parametrize(
    ("answer", "error", "expected"),
    [(7, None, 7), (None, KeyError("gone"), 0), (None, None, 0)],
    ids=["in time", "failed", "late"],
)
def test_an_answer_counts_within_its_budget(answer, error, expected):
    asked = Future()
    given = within(5.0 if answer or error else 0.001, asked, 0)
    if error:
        asked.set_exception(error)
    elif answer:
        asked.set_result(answer)
    assert given.result(60.0) == expected
    if not asked.done():
        asked.set_result(7)  # too late
    assert given.result() == expected
