import time
from concurrent.futures import Future

import pytest

from core.errors import EngineError, ObjectMissing, ObjectsUnavailable
from worker.jobs.latent_reads import Starts


@pytest.mark.parametrize(
    ("error", "late"),
    [(None, 0), (ObjectMissing("k"), 0), (EngineError("damaged"), 0), (ObjectsUnavailable("x"), 1)],
)
def test_what_the_store_answers_is_no_delay_and_what_it_does_not_is_one(error, late):
    starts, asked = Starts(), Future()
    answer = starts.in_time(5.0, asked)
    if error is None:
        asked.set_result("latents")
    else:
        asked.set_exception(error)
    assert answer.result(60.0) == ("latents" if error is None else None)
    assert (starts.read, starts.late) == (1, late)


def test_an_answer_after_the_budget_is_late():
    starts, asked = Starts(), Future()
    assert starts.in_time(0.01, asked).result(60.0) is None
    until = time.monotonic() + 60.0
    while not starts.read and time.monotonic() < until:  # who waits is woken before it is counted
        time.sleep(0.001)
    asked.set_result("latents")
    assert (starts.read, starts.late) == (1, 1)
