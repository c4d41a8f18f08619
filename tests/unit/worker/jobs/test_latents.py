"""What delivered jobs leave behind, on its way to the store."""

import threading
import time
from concurrent.futures import Future

import pytest

from core.errors import ObjectsUnavailable
from core.latents import latents_key
from core.telemetry import metrics
from tests.jobs import a_job
from worker.engine.slot import JobImages
from worker.jobs.latents import MAX_WAITING, LatentWriter


class Left:
    def __init__(self, data):
        self.data = data

    def write(self):
        return self.data


class Store:
    """Keeps what it is given, once it may."""

    def __init__(self, refused=()):
        self.objects, self.deleted = {}, []
        self.refused = refused
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()

    def put_latents(self, key, data):
        self.is_asked.set()
        assert self.is_open.wait(60.0)
        answer = Future()
        if key in self.refused:
            answer.set_exception(ObjectsUnavailable("the disk is full"))
        else:
            self.objects[key] = data
            answer.set_result(None)
        return answer

    def delete(self, keys):
        self.deleted += keys


def made(left):
    return JobImages(job_id="j1", images=(), seeds=(), admitted_at=0.0, denoised_at=0.0, left=left)


TWO = {5: Left(b"five"), 10: Left(b"ten")}


@pytest.fixture
def lenders():
    return []


def lending(store, lenders, deleted=()):
    def announce(lender):
        is_kept = lender.id not in deleted
        lenders.extend([lender] * is_kept)
        return is_kept

    return LatentWriter(store=store, announce=announce, clock=lambda: 7.0)


def counted(outcome):
    return metrics.latents_left.labels(outcome)._value.get()


def wait_until(is_so):
    until = time.monotonic() + 5.0
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_latents_are_stored_and_then_announced(lenders):
    store = Store()
    writer = lending(store, lenders)
    writer.start()
    writer.offer(a_job(), made(TWO))
    wait_until(lambda: lenders)
    writer.close()
    assert store.objects == {latents_key("t", "j1", 5): b"five", latents_key("t", "j1", 10): b"ten"}
    [lender] = lenders
    assert (lender.id, lender.tenant, lender.skips, lender.num_bytes) == ("j1", "t", (5, 10), 7)
    assert (lender.made_at, lender.prompt) == (7.0, "a red circle")
    assert (lender.terms.steps, lender.terms.is_guided) == (4, True)


def test_a_job_that_leaves_nothing_is_not_announced(lenders):
    writer = lending(Store(), lenders)
    writer.start()
    writer.offer(a_job(), made({}))
    writer.close()
    assert lenders == []


@pytest.mark.parametrize(
    ("refused", "deleted", "outcome"),
    [({latents_key("t", "j1", 10)}, (), "failed"), ((), {"j1"}, "dropped")],
    ids=["that cannot be stored", "of a job that was deleted meanwhile"],
)
def test_latents_that_are_of_no_use_are_counted_and_taken_back(lenders, refused, deleted, outcome):
    store, before = Store(refused=refused), counted(outcome)
    writer = lending(store, lenders, deleted)
    writer.start()
    writer.offer(a_job(), made(TWO))
    writer.offer(a_job("j2"), made(TWO))
    wait_until(lambda: lenders)
    writer.close()
    assert [lender.id for lender in lenders] == ["j2"]
    assert store.deleted == [latents_key("t", "j1", 5), latents_key("t", "j1", 10)]
    assert counted(outcome) == before + 1


def test_what_comes_while_the_store_is_slow_is_dropped(lenders):
    store, before = Store(), counted("dropped")
    store.is_open.clear()
    writer = lending(store, lenders)
    writer.start()
    writer.offer(a_job("first"), made(TWO))
    assert store.is_asked.wait(60.0)
    for number in range(MAX_WAITING + 3):
        writer.offer(a_job(f"j{number}"), made(TWO))
    assert counted("dropped") == before + 3
    store.is_open.set()
    writer.close()
    assert len(lenders) <= 1 + MAX_WAITING
