from hypothesis import given
from hypothesis import strategies as st

from cli.client.events import parse_events


def test_events_come_with_their_id_and_name():
    lines = ["id: 1-0", "event: progress", 'data: {"step": 3}', ""]
    (event,) = parse_events(lines)
    assert (event.id, event.event, event.data) == ("1-0", "progress", {"step": 3})


def test_heartbeats_and_unknown_fields_are_skipped():
    lines = [": ping", "", "retry: 1000", "", "colour: red", "event: done", "data: {}", ""]
    assert [event.event for event in parse_events(lines)] == ["done"]


def test_data_over_several_lines_is_joined():
    (event,) = parse_events(['data: {"a":', "data: 1}", ""])
    assert event.data == {"a": 1}


def test_an_event_that_was_cut_off_is_not_told():
    assert list(parse_events(["id: 1", "event: done", "data: {}"])) == []


def test_the_last_id_holds_for_events_without_one():
    events = parse_events(["id: 7", "data: {}", "", "data: {}", ""])
    assert [event.id for event in events] == ["7", "7"]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n"))))
def test_no_comment_is_ever_an_event(texts):
    assert list(parse_events([f":{text}" for text in texts])) == []
