"""Where images stand: when it is copied, what is written, and when it goes."""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from core.errors import ObjectsUnavailable
from storage.objects.image_states import StateKey
from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner
from worker.diffusion.image_state import read_state
from worker.engine.slot import Slot, Ticket
from worker.futures import resolved
from worker.jobs.states import StateWriter

STEP_S = 1e6


class Runner(FakeRunner):
    """Says where an image stands, unless it cannot."""

    def __init__(self):
        super().__init__()
        self.can = True
        self.copied = 0

    def state_of(self, sample):
        self.copied += 1
        value = sample.value
        return (lambda: str(value).encode()) if self.can else None


class Store:
    def __init__(self):
        self.objects, self.calls = {}, []
        self.error = None
        self.is_open = threading.Event()
        self.is_open.set()

    def put_states(self, states):
        self.calls.append([key for key, _ in states])
        assert self.is_open.wait(60.0)
        if self.error is not None:
            failed: Future[None] = Future()
            failed.set_exception(self.error)
            return failed
        self.objects.update(states)
        return resolved(None)

    def delete(self, keys):
        for key in keys:
            del self.objects[key]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def writer(store):
    writer = StateWriter(store=store, identify=lambda job: job.id, every=4)
    yield writer
    store.is_open.set()
    writer.close()


def a_slot(runner, name="j1", index=0, **changes):
    job = replace(a_job(name, steps=20, **changes), fence=7)
    ticket = Ticket(job=job, runner=runner, due_at=0.0, deadline=None)
    return Slot(ticket=ticket, index=index, sample=runner.open(job.request, index))


def step(writer, *slots, times=1, step_s=STEP_S):
    for _ in range(times):
        for slot in slots:
            slot.note_step()
            slot.sample.value = float(slot.step)
        writer.note(slots, step_s)


def until(is_so):
    end = time.monotonic() + 5.0
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def steps_in(store):
    """Steps of the states that are stored, by index of the image."""
    found = {}
    for key, data in store.objects.items():
        name = StateKey.read(key)
        state = read_state(data, name.job_id)
        assert state.payload == str(float(state.step)).encode()
        found[name.index] = state.step
    return found


def test_an_image_is_kept_every_few_steps_and_the_newest_takes_the_place_of_the_last(writer, store):
    writer.start()
    slot = a_slot(Runner())
    for expected in (4, 8, 12):
        step(writer, slot, times=4)
        until(lambda expected=expected: steps_in(store) == {0: expected})
    assert list(store.objects) == ["states/t/j1/7/0.state"]


def test_each_image_of_a_job_has_a_state_of_its_own(writer, store):
    writer.start()
    runner = Runner()
    step(writer, a_slot(runner), a_slot(runner, index=1), times=4)
    until(lambda: steps_in(store) == {0: 4, 1: 4})


def test_what_cannot_be_gone_on_from_is_kept_a_step_later(writer, store):
    writer.start()
    runner = Runner()
    slot = a_slot(runner)
    runner.can = False
    step(writer, slot, times=5)
    assert runner.copied == 2
    runner.can = True
    step(writer, slot)
    until(lambda: steps_in(store) == {0: 6})


def test_a_finished_image_is_not_kept(writer):
    runner = Runner()
    slot = a_slot(runner)
    slot.step = slot.sample.num_steps - 1
    step(writer, slot)
    assert runner.copied == 0


def test_where_copies_are_dear_for_a_step_they_are_fewer():
    runner = Runner()
    writer = StateWriter(store=Store(), identify=str, every=1)
    copy = runner.state_of
    runner.state_of = lambda sample: (time.sleep(0.002), copy(sample))[1]
    slot = a_slot(runner)
    slot.sample.num_steps = 1000
    step(writer, slot, times=60, step_s=0.02)  # a tenth of a step at least: one copy in ten
    assert 3 < runner.copied <= 3 + 6  # the first are measured


def test_a_copy_that_takes_long_once_makes_no_later_one_rarer(writer):
    runner, copy = Runner(), Runner.state_of
    delays = iter([0.1])
    runner.state_of = lambda sample: (time.sleep(next(delays, 0.0)), copy(runner, sample))[1]
    slot = a_slot(runner)
    step(writer, slot, times=16, step_s=1.0)
    assert runner.copied == 4


def test_switched_off_it_keeps_nothing_and_waits_for_nothing(store):
    runner = Runner()
    writer = StateWriter(store=store, identify=str, every=0)
    step(writer, a_slot(runner), times=9)
    assert runner.copied == 0 and not writer.is_on
    assert writer.settle({"j1"}, 0.0)


def test_a_slow_store_gets_the_newest_state_and_holds_nobody_up(writer, store):
    writer.start()
    store.is_open.clear()
    slot = a_slot(Runner())
    step(writer, slot, times=4)
    until(lambda: store.calls)
    step(writer, slot, times=12)
    assert len(writer._waiting) == 1
    store.is_open.set()
    until(lambda: steps_in(store) == {0: 16})
    assert len(store.calls) == 2


def test_a_store_that_fails_costs_that_state_alone(writer, store):
    writer.start()
    store.error = ObjectsUnavailable("the disk is full")
    slot = a_slot(Runner())
    step(writer, slot, times=4)
    until(lambda: store.calls)
    store.error = None
    step(writer, slot, times=4)
    until(lambda: steps_in(store) == {0: 8})


def test_what_was_kept_of_a_job_goes_with_its_end_and_what_others_left_of_it(writer, store):
    writer.start()
    store.objects["states/t/j1/5/0.state"] = b""
    writer.know("j1", ["states/t/j1/5/0.state"])
    runner = Runner()
    step(writer, a_slot(runner), times=4)
    step(writer, a_slot(runner, "j2"), times=4)
    until(lambda: len(store.objects) == 3)
    writer.end("j1")
    until(lambda: list(store.objects) == ["states/t/j2/7/0.state"])
    writer.end("unknown")


def test_a_state_that_is_on_its_way_when_its_job_ends_goes_too(writer, store):
    writer.start()
    store.is_open.clear()
    step(writer, a_slot(Runner()), times=4)
    until(lambda: store.calls)
    writer.end("j1")
    store.is_open.set()
    until(lambda: store.calls and not writer._over and not store.objects)


def test_a_job_that_others_have_is_left_to_them(writer, store):
    writer.start()
    step(writer, a_slot(Runner()), times=4)
    until(lambda: store.objects)
    writer.lose("j1")
    writer.end("j1")
    assert writer._over == []
    assert store.objects


def test_a_job_that_is_handed_over_is_written_where_it_stands(writer, store):
    writer.start()
    slot = a_slot(Runner())
    step(writer, slot, times=6)
    writer.hand_over(slot.ticket, [slot])
    assert writer.settle({"j1"}, 5.0)
    assert steps_in(store) == {0: 6}


def test_a_hand_over_waits_for_the_engine_and_the_store_but_not_for_long(writer, store):
    writer.start()
    slot = a_slot(Runner())
    step(writer, slot, times=4)
    until(lambda: store.objects)
    assert not writer.settle({"j1"}, 0.01)  # it is in the engine
    store.is_open.clear()
    step(writer, slot)
    writer.hand_over(slot.ticket, [slot])
    assert not writer.settle({"j1"}, 0.01)  # it is being written


def test_an_image_without_a_step_beyond_the_last_state_is_not_copied_again(writer):
    runner = Runner()
    slot = a_slot(runner)
    writer.hand_over(slot.ticket, [slot])
    step(writer, slot, times=4)
    writer.hand_over(slot.ticket, [slot])
    assert runner.copied == 1


def test_a_copy_that_fails_costs_no_step(writer):
    def fail(sample):
        raise RuntimeError("the device is lost")

    slot = a_slot(Runner())
    slot.ticket.runner = SimpleNamespace(state_of=fail)
    step(writer, slot, times=4)
    assert writer._waiting == {}
