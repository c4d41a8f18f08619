from hypothesis import given
from hypothesis import strategies as st

from atelier_client.exchange.flows import ask, repeating
from atelier_client.exchange.retries import Retries
from atelier_client.exchange.steps import Answer, Call, Lost, Pause
from atelier_client.types.kept import Deleted

READ = Call(method="GET", path="/x", may_repeat=True)
WRITE = Call(method="POST", path="/x")
GOOD = Answer(status=200, body=b'{"id": "i"}')
BUSY = Answer(status=429, headers={"retry-after": "7"}, body=b"{}")


def run(call, *heard, most=2):
    """Run a call against a service that says so; return the pauses, and what was asked."""
    flow = repeating(ask(call, Deleted), Retries(most=most), lambda: 0.0)
    coming, pauses, asked = iter(heard), [], []
    step = next(flow)
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = flow.send(None)
            else:
                asked.append(step)
                step = flow.send(next(coming))
    except StopIteration as end:
        return end.value.id, pauses, asked
    except Exception as error:
        return type(error).__name__, pauses, asked


def test_what_is_refused_for_now_is_asked_again_when_the_service_says():
    for call in (READ, WRITE):
        assert run(call, BUSY, GOOD) == ("i", [7.0], [call, call])


def test_a_refusal_that_says_no_time_or_too_long_a_one_is_told():
    for headers in ({}, {"retry-after": "61"}, {"retry-after": "soon"}):
        busy = Answer(status=429, headers=headers, body=b"{}")
        assert run(READ, busy) == ("TooManyRequests", [], [READ])


def test_a_broken_dependency_is_asked_again_with_longer_pauses():
    away = Answer(status=503, body=b"{}")
    assert run(READ, away, away, GOOD)[:2] == ("i", [0.5, 1.0])
    assert run(READ, away, away, away)[:2] == ("ServiceFailed", [0.5, 1.0])
    assert run(READ, Answer(status=503, headers={"retry-after": "2"}), GOOD)[1] == [2.0]


def test_an_error_of_the_service_is_no_reason_to_ask_again():
    assert run(READ, Answer(status=500, body=b"{}"))[:2] == ("ServiceFailed", [])


def test_who_wants_no_retries_gets_none():
    assert run(READ, BUSY, most=0) == ("TooManyRequests", [], [READ])


outcomes = st.one_of(
    st.builds(Lost, reason=st.just("reset"), was_sent=st.booleans()),
    st.builds(
        Answer,
        status=st.sampled_from([200, 404, 408, 422, 429, 500, 502, 503, 504]),
        headers=st.sampled_from([{}, {"retry-after": "1"}]),
        body=st.just(b'{"id": "i"}'),
    ),
)


@given(st.lists(outcomes, min_size=4, max_size=4), st.integers(0, 3))
def test_what_may_have_been_done_is_never_done_again_unless_that_changes_nothing(heard, most):
    _, pauses, asked = run(WRITE, *heard, most=most)
    assert len(asked) == len(pauses) + 1 <= most + 1
    for passed in heard[: len(asked) - 1]:
        is_refused = isinstance(passed, Answer) and passed.status == 429
        is_unsent = isinstance(passed, Lost) and not passed.was_sent
        assert is_refused or is_unsent
