from threading import Event
from types import SimpleNamespace

from worker.control.server.step_batching import StepQueue, WaitingStep


def a_session(rows=2, shape="small"):
    begun = SimpleNamespace(rows=rows, group=shape)
    return SimpleNamespace(over=Event()), SimpleNamespace(begun=begun)


def asked(session, network="edges"):
    hosted, step = session
    return WaitingStep(peer=None, hosted=hosted, network=network, step=step, ask=None)


def taken(*waiting, max_rows=8):
    turns, taken = StepQueue(max_rows), []
    for each in waiting:
        turns.add(each)
    while len(turns):
        taken.append([waiting.index(each) for each in turns.take()])
    return taken


def test_what_came_first_is_next_with_whatever_is_alike():
    a, b, c, large = a_session(), a_session(), a_session(), a_session(shape="large")
    steps = asked(a), asked(b, "depth"), asked(c), asked(large)
    assert taken(*steps) == [[0, 2], [1], [3]]


def test_no_more_rows_are_computed_together_than_fit():
    assert taken(*(asked(a_session()) for _ in range(5)), max_rows=4) == [[0, 1], [2, 3], [4]]
    assert taken(asked(a_session(rows=9))) == [[0]]


def test_two_steps_of_one_image_are_computed_one_after_the_other():
    a, b = a_session(), a_session()
    assert taken(asked(b), asked(a), asked(a), asked(b)) == [[0, 1], [2, 3]]


def test_a_step_of_a_session_that_is_over_is_left_out():
    a, b = a_session(), a_session()
    steps = asked(a), asked(b)
    a[0].over.set()
    assert taken(*steps) == [[1]]
