"""What the hostile client sends reaches every route; its judgement tells right from wrong."""

from collections.abc import Sequence

import pytest
from starlette.routing import Match

from api.services.scopes import NEEDED
from bench.hostility.client import Answer
from bench.hostility.input import Input, Known, post
from bench.hostility.outcome import Outcome, echo_of
from core.settings import Settings
from run.api import create_app

KNOWN = Known(key="k", job="a", image="/files/a.png?expires=1", operator="o", theirs="b")


def first_line(sent: Input) -> bytes:
    """Read the request line of an input, as far as it has one."""
    written = b""
    for piece in sent.pieces(KNOWN):
        written += piece[:9000]
        if b"\r\n" in written or len(written) > 9000:
            break
    return written.partition(b"\r\n")[0]


@pytest.fixture(scope="module")
def inputs() -> Sequence[Input]:
    from bench.hostility.inputs.all import INPUTS  # a hundred megabytes: not in each process

    return INPUTS


@pytest.fixture(scope="module")
def reached(inputs: Sequence[Input]) -> set[str]:
    routes = create_app(Settings()).routes
    found = set()
    for line in {first_line(sent) for sent in inputs}:
        method, _, rest = line.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        for route in routes:
            if route.matches(scope)[0] is Match.FULL:
                found.add(f"{method} {route.path}")
                break
    return found


def test_every_route_is_attacked(reached: set[str]) -> None:
    assert sorted(NEEDED.keys() - reached) == []


def test_every_input_has_a_name_of_its_own(inputs: Sequence[Input]) -> None:
    names = [sent.name for sent in inputs]
    assert len(names) == len(set(names)) >= 300


def judged(status: int, text: str = "", **of_input: object) -> Outcome:
    sent = Input(name="a", kind="b", pieces=lambda known: post(known, "/", b""), **of_input)
    whole = "HTTP/1.1 422 A\r\ncontent-type: application/problem+json\r\n\r\n" + text
    return Outcome(sent=sent, answers=[Answer(status, whole)], began=0.0, ended=0.0, echoed=0)


PROBLEM = '{"detail": "at most 8"}'


@pytest.mark.parametrize(
    ("status", "text", "of_input", "is_wrong"),
    [
        (422, PROBLEM, {"says": "at most 8"}, False),
        (422, PROBLEM, {"says": "at most 9"}, True),
        (422, "no JSON", {}, True),
        (200, "", {}, False),
        (200, "", {"is_refused": True}, True),
        (0, "", {}, True),
        (0, "", {"is_cut": True}, False),
        (429, '{"detail": "no"}', {}, True),
    ],
)
def test_an_answer_is_judged(status: int, text: str, of_input: dict, is_wrong: bool) -> None:
    assert judged(status, text, **of_input).is_unnamed is is_wrong


def test_only_the_service_is_at_fault_for_500s() -> None:
    assert judged(500, PROBLEM).is_failed
    assert not judged(422, PROBLEM).is_failed


def test_what_a_refusal_repeats_is_counted() -> None:
    sent = b'{"' + b"k" * 5000 + b'":1}'
    refusal = Answer(422, "HTTP/1.1 422 A\r\n\r\n" + "k" * 2000)
    assert 1900 <= echo_of(sent, [refusal]) <= 2000
    assert echo_of(sent, [Answer(200, refusal.text)]) == 0
    assert echo_of(sent, [Answer(422, "HTTP/1.1 422 A\r\n\r\n" + "x" * 2000)]) == 0
