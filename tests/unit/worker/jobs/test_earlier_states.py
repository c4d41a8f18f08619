"""What a job goes on from that another worker has begun."""

import zlib
from concurrent.futures import Future
from dataclasses import replace

import pytest

from core.errors import ObjectsUnavailable, StoreUnavailable
from core.job import Claim
from storage.objects.image_states import StateKey
from tests.jobs import a_job
from worker.cpu.image_states import newest
from worker.diffusion.image_state import ImageState
from worker.futures import failed, resolved
from worker.jobs.earlier_states import EarlierStates


def key(fence, index=0):
    return str(StateKey(tenant="t", job_id="j1", fence=fence, index=index))


def a_state(step=4, identity="same", **of):
    return ImageState(
        identity=identity, step=step, steps=20, checksum=zlib.crc32(b"x"), payload=b"x", **of
    ).write()


class House:
    def __init__(self, objects=None, **of):
        self.answer = resolved(objects or {})
        self.asked, self.known, self.credits = [], {}, []
        self.error = None
        self.states = EarlierStates(
            store=self,
            identify=lambda job: "same",
            know=lambda job_id, keys: self.known.update({job_id: set(keys)}),
            credit=self.credit,
            **of,
        )

    def get_states(self, tenant, job_id):
        self.asked.append((tenant, job_id))
        return self.answer

    def credit(self, job_id, fence, furthest):
        if self.error is not None:
            raise self.error
        self.credits.append((job_id, fence, furthest))

    def find(self, *earlier, is_suspect=False):
        job = replace(a_job("j1", n=2), fence=99, is_suspect=is_suspect)
        found = self.states.find(Claim(job=job, fence=99, lease_until=0.0, earlier=earlier))
        return found and {index: state.step for index, state in found.result(60.0).items()}


def test_nobody_looks_for_states_of_a_job_that_is_new():
    house = House()
    assert house.find() is None
    assert house.asked == []


def test_the_states_of_each_image_are_found_and_remembered():
    house = House({key(7): a_state(4), key(7, 1): a_state(8)})
    assert house.find(7) == {0: 4, 1: 8}
    assert house.known == {"j1": {key(7), key(7, 1)}}
    assert house.credits == []


def test_of_each_image_the_newest_state_counts():
    keys = [key(7), key(7, 1), key(9, 1), "states/t/j1/9/odd"]
    assert newest(keys) == [key(7), key(9, 1)]


@pytest.mark.parametrize("data", [a_state(identity="another"), b"", a_state()[:-1]])
def test_a_state_that_is_of_no_use_costs_that_image_alone(data):
    assert House({key(7): data, key(7, 1): a_state(8)}).find(7) == {1: 8}


def test_a_store_that_fails_or_is_late_costs_the_states():
    house = House()
    house.answer = failed(ObjectsUnavailable("away"))
    assert house.find(7) == {}
    house = House(patience_s=0.01)
    house.answer = Future()
    assert house.find(7) == {}


def test_a_suspect_says_how_far_it_had_come():
    house = House({key(7): a_state(4), key(7, 1): a_state(8, is_second=True)})
    assert house.find(7, is_suspect=True) == {0: 4, 1: 8}
    assert house.credits == [("j1", 99, 10**6 + 12)]


def test_what_the_store_does_not_hear_of_that_is_gone_on_from_all_the_same():
    house = House({key(7): a_state(4)})
    house.error = StoreUnavailable("away")
    assert house.find(7, is_suspect=True) == {0: 4}


def test_a_suspect_goes_on_from_the_same_place_twice_and_then_begins_anew():
    house = House({key(7): a_state(4)})
    assert house.find(7, 8, is_suspect=True) == {0: 4}
    assert house.find(7, 8, 9, is_suspect=True) == {}
    assert house.find(7, 8, 9) == {0: 4}
    assert house.known["j1"] == {key(7)}
