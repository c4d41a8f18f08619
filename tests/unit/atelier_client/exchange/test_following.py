import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelier_client.errors import NoAnswer, NotFound, ServiceFailed, TooManyRequests
from atelier_client.exchange.following import MAX_RECONNECTS, Lines, Messages, follow
from atelier_client.exchange.steps import Answer, Call, Give, Lost, NextLine, Open, Pause
from atelier_client.types.job import DoneEvent, ProgressEvent, StatusEvent

CALL = Call(method="GET", path="/v1/jobs/j/events")
JOB = {"id": "j", "status": "succeeded"}
ALL = [
    ("0-1", "status", {"status": "running"}),
    *((f"1-{step}", "progress", {"step": step, "steps": 5}) for step in range(1, 6)),
    ("2-0", "done", JOB),
]


def parsed(lines):
    messages = Messages()
    return [message for line in lines if (message := messages.feed(line)) is not None]


def test_a_message_comes_with_its_id_and_name():
    (message,) = parsed(["id: 1-0", "event: progress", 'data: {"step": 3}', ""])
    assert (message.id, message.event, message.data) == ("1-0", "progress", '{"step": 3}')


def test_heartbeats_and_unknown_fields_are_skipped():
    lines = [": ping", "", "retry: 1000", "", "colour: red", "event: done", "data: {}", ""]
    assert [message.event for message in parsed(lines)] == ["done"]


def test_data_over_several_lines_is_joined():
    (message,) = parsed(['data: {"a":', "data: 1}", ""])
    assert message.data == '{"a":\n1}'


def test_a_message_that_was_cut_off_is_not_told():
    assert parsed(["id: 1", "event: done", "data: {}"]) == []


def test_the_last_id_holds_for_messages_without_one():
    assert [m.id for m in parsed(["id: 7", "data: {}", "", "data: {}", ""])] == ["7", "7"]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n"))))
def test_no_comment_is_ever_a_message(texts):
    assert parsed([f":{text}" for text in texts]) == []


@given(st.lists(st.text(alphabet="a\r\n\u2028\u2029\x85\x0b", max_size=4)))
def test_lines_end_where_an_event_stream_says_wherever_it_is_cut(pieces):
    lines = Lines()
    cut = [line for piece in [*pieces, "\n"] for line in lines.feed(piece)]
    assert cut == re.split(r"\r\n|\n|\r", "".join(pieces) + "\n")[:-1]


class Stream:
    """A service that has all events, and whose connections break off after so many lines."""

    def __init__(self, breaks):
        self.breaks = iter(breaks)
        self.lines = []
        self.left = 0
        self.opened = []

    def answer(self, step):
        match step:
            case Open(call):
                self.opened.append(call.headers.get("Last-Event-ID"))
                rest = [each for each in ALL if each[0] > (call.headers.get("Last-Event-ID") or "")]
                self.lines = [line for each in rest for line in written(*each)]
                self.left = next(self.breaks, len(self.lines))
                return Answer(status=200)
            case NextLine():
                self.left -= 1
                return self.lines.pop(0) if self.left >= 0 else Lost(reason="reset")
            case _:
                return None


def written(event_id, name, data):
    return [f"id: {event_id}", f"event: {name}", f"data: {json.dumps(data)}", ""]


def run(answer):
    source, heard, given_, pauses = follow(CALL), None, [], []
    while True:
        try:
            step = source.send(heard)
        except StopIteration:
            return given_, pauses
        if isinstance(step, Give):
            given_.append(step.value)
        if isinstance(step, Pause):
            pauses.append(step.seconds)
        heard = answer(step)


@given(st.lists(st.integers(0, 27), max_size=MAX_RECONNECTS))
def test_every_event_is_told_once_wherever_connections_break(breaks):
    stream = Stream(breaks)
    events, _ = run(stream.answer)
    assert [type(each) for each in events] == [StatusEvent, *[ProgressEvent] * 5, DoneEvent]
    assert [each.step for each in events[1:6]] == [1, 2, 3, 4, 5]
    assert events[-1].job.id == "j"
    assert stream.opened[0] is None


def test_a_stream_that_brings_nothing_is_given_up():
    pauses = []

    def answer(step):
        pauses.extend([step.seconds] if isinstance(step, Pause) else [])
        return Lost(reason="it is gone")

    with pytest.raises(NoAnswer, match="it is gone"):
        run(answer)
    assert len(pauses) == MAX_RECONNECTS and pauses == sorted(pauses)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_service_that_is_away_for_a_moment_is_asked_again_when_it_says(status):
    stream, refusals = Stream([9]), iter([{"retry-after": "3"}, {}])

    def answer(step):
        if isinstance(step, Open) and stream.opened and (told := next(refusals, None)) is not None:
            return Answer(status=status, headers=told)
        return stream.answer(step)

    events, pauses = run(answer)
    assert [type(each) for each in events] == [StatusEvent, *[ProgressEvent] * 5, DoneEvent]
    assert pauses == [0.1, 3.0, 0.4]


@pytest.mark.parametrize(
    ("refused", "error", "tries"),
    [
        (Answer(status=503, body=b'{"title": "no store"}'), ServiceFailed, MAX_RECONNECTS + 1),
        (Answer(status=429, headers={"retry-after": "3600"}), TooManyRequests, 1),
    ],
    ids=["always", "for-an-hour"],
)
def test_a_service_that_refuses_for_long_is_told(refused, error, tries):
    asked = []

    def answer(step):
        asked.extend([step] if isinstance(step, Open) else [])
        return refused

    with pytest.raises(error):
        run(answer)
    assert len(asked) == tries


def test_a_stream_that_has_nothing_more_ends():
    assert run(lambda step: Answer(status=204)) == ([], [])


def test_a_job_that_is_not_there_is_told():
    with pytest.raises(NotFound):
        run(lambda step: Answer(status=404, body=b'{"title": "no such job"}'))


def test_a_preview_is_the_picture_itself_and_unknown_events_are_left_out():
    said = [
        *written("1", "weather", {"rain": True}),
        *written("2", "progress", {"step": 1, "steps": 2, "preview": "/9j/", "previews": {}}),
        *written("3", "done", JOB | {"colour": "a field of tomorrow"}),
    ]
    lines = iter(said)

    def answer(step):
        return Answer(status=200) if isinstance(step, Open) else next(lines, None)

    (progress, done), _ = run(lambda s: answer(s) if isinstance(s, Open | NextLine) else None)
    assert progress.preview == b"\xff\xd8\xff"
    assert done.job.status.is_terminal
