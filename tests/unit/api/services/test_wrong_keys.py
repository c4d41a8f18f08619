import pytest

from api.services.wrong_keys import MAX_WRONG, WINDOW_S, WrongKeys
from core.errors import TooManyRequests


class Clock:
    at = 100.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def wrong(clock):
    return WrongKeys(clock)


def test_after_some_wrong_keys_an_address_waits_and_no_other_does(wrong, clock):
    for _ in range(MAX_WRONG):
        wrong.check("a", "guess")
        wrong.note_wrong("a")
    clock.at += 10.0
    with pytest.raises(TooManyRequests) as refused:
        wrong.check("a", "guess")
    assert refused.value.retry_after_s == WINDOW_S - 10.0
    wrong.check("b", "guess")
    clock.at += WINDOW_S
    wrong.check("a", "guess")


def test_a_key_that_was_right_from_there_goes_on(wrong):
    wrong.note_right("a", "known")
    for _ in range(MAX_WRONG):
        wrong.note_wrong("a")
    wrong.check("a", "known")
    with pytest.raises(TooManyRequests):
        wrong.check("a", "a right one that is new there")


def test_wrong_keys_now_and_then_are_forgotten(wrong, clock):
    for _ in range(3 * MAX_WRONG):
        wrong.note_wrong("a")
        wrong.check("a", "guess")
        clock.at += WINDOW_S / 5
