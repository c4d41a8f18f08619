import asyncio
import time
from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread

import numpy as np
import pytest

from core.errors import (
    BadWeights,
    EngineError,
    JobCanceled,
    JobExpired,
    JobHandedOver,
    JobStopped,
    LeaseLost,
    ObjectsUnavailable,
    ProcessLost,
    StoreUnavailable,
)
from core.job import Edit, JobStatus, Quality, Task
from storage.jobs.leases import Outcome
from tests.unit.worker.house import House, States
from worker.diffusion.image_state import ImageState
from worker.diffusion.runner import Borrowed, EditInputs
from worker.futures import resolved
from worker.jobs.claimed import failure_of


@pytest.fixture
def house():
    return House()


def test_a_job_that_is_taken_ends_with_images_under_its_fence(house):
    job_id = house.submit(n=2)
    assert house.take(job_id)
    house.run()
    house.finish()
    job = house.get(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert [i.key for i in job.images] == [f"t/{job_id}/{job.fence}/{i}.png" for i in range(2)]
    assert house.endings[job_id].images == 2
    assert house.executor.fences() == {}
    assert len(house.seconds) == 1


def test_the_timing_says_where_the_seconds_went(house):
    job_id = house.submit()
    house.clock.now += 3.0
    house.take(job_id)
    house.run()
    house.clock.now += 2.0
    house.finish()
    timing = house.get(job_id).timing
    assert (timing.queue_s, timing.total_s) == (3.0, 5.0)
    assert timing.prepare_s >= 0
    assert timing.denoise_s >= 0
    assert timing.finish_s >= 0


def test_a_second_message_for_a_job_is_nothing_to_make(house):
    job_id = house.submit()
    assert house.take(job_id)
    assert not house.take(job_id)


def test_a_canceled_job_is_nothing_to_make(house):
    job_id = house.submit()
    asyncio.run(house.jobs.cancel(job_id))
    assert not house.take(job_id)


def test_a_job_canceled_while_it_runs_leaves_before_its_next_step(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    asyncio.run(house.jobs.cancel(job_id))
    for stopped in house.leases.stops(0.0):
        house.executor.check(stopped)
    house.engine.step()
    assert not house.engine.running
    house.finish()
    assert house.get(job_id).status is JobStatus.CANCELED
    assert isinstance(house.endings[job_id].error, JobCanceled)
    assert not house.images.keys


def test_a_late_order_to_stop_does_not_touch_a_newer_claim(house):
    job_id = house.submit()
    house.take(job_id)
    house.executor.check(job_id)
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_a_stalled_worker_publishes_nothing_and_deletes_what_it_made(house):
    job_id = house.submit()
    house.take(job_id)
    house.run()
    stale = house.get(job_id).fence
    house.clock.now += 11.0
    asyncio.run(house.sweeper.reap())
    other = type(house.leases)(house.store, worker="w2", lease_s=10.0)
    claim = other.claim(job_id)
    house.finish()
    assert house.get(job_id).status is JobStatus.RUNNING
    assert house.images.deleted == [f"t/{job_id}/{stale}/0.png"]
    assert isinstance(house.endings[job_id].error, LeaseLost)
    assert other.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))


def test_a_lost_lease_stops_the_job(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    fence = house.get(job_id).fence
    house.executor.lose(job_id, fence + 1)
    house.engine.step()
    assert house.engine.running
    house.executor.lose(job_id, fence)
    house.engine.step()
    assert not house.engine.running


def test_a_worker_may_claim_again_what_it_lost_in_a_stall(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.clock.now += 11.0
    asyncio.run(house.sweeper.reap())
    first = house.endings
    house.endings = {}
    assert house.take(job_id)
    house.settle()
    job = house.get(job_id)
    assert (job.status, job.attempts) == (JobStatus.SUCCEEDED, 2)
    assert isinstance(first[job_id].error, JobCanceled)
    assert house.endings[job_id].images == 1


def test_a_revoked_job_is_canceled_in_its_record_too(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.executor.stop(job_id, JobCanceled("revoked"))
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.CANCELED


def test_a_job_revoked_before_anybody_took_it_is_canceled(house):
    job_id = house.submit()
    house.executor.refuse(job_id)
    assert house.get(job_id).status is JobStatus.CANCELED


def test_a_deadline_is_moved_from_the_stores_clock_to_ours(house):
    job_id = house.submit(deadline_s=5.0, steps=50)
    house.take(job_id)
    house.engine.step()
    assert house.engine.running  # though the store's clock is decades behind
    ticket = house.engine.running[0].ticket
    assert ticket.deadline - ticket.admitted_at == pytest.approx(5.0, abs=1.0)
    assert ticket.due_at == house.get(job_id).deadline_at, "jobs are ranked by the store's clock"


def test_a_step_of_the_wall_clock_ends_no_job_before_its_time(house, monkeypatch):
    wall = time.time
    job_id = house.submit(deadline_s=30.0, steps=50)
    monkeypatch.setattr(time, "time", lambda: wall() - 60.0)
    house.take(job_id)
    house.engine.step()
    monkeypatch.setattr(time, "time", wall)  # it is set right
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED
    assert 0 <= house.get(job_id).timing.prepare_s < 30
    assert 0 <= house.seconds[0] < 30


def gone_back(house, job_id):
    """Tell whether a job waits for another worker, uncharged, and nothing of it is left here."""
    house.run()
    house.finish()
    job = house.get(job_id)
    is_free = not house.executor.fences() and house.store.stats["released"] == 1
    return is_free and (job.status, job.attempts) == (JobStatus.QUEUED, 0)


def test_a_job_whose_model_is_not_here_goes_back_uncharged(house):
    job_id = house.submit()
    house.engine.detach("m")
    house.take(job_id)
    assert gone_back(house, job_id)
    assert isinstance(house.endings[job_id].error, JobHandedOver)
    assert not house.deaths


def away(house, **request):
    """Make a job whose images the store does not take."""
    house.images.is_away = True
    job_id = house.submit(**request)
    house.take(job_id)
    house.run()
    return job_id


def wait_until(is_so):
    until = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_images_wait_for_a_store_that_is_away_and_are_kept_meanwhile(house):
    job_id = away(house)
    assert house.executor.num_finishing() == 1
    assert house.executor.fences()  # its lease is renewed
    house.images.is_away = False
    wait_until(lambda: house.images.keys)
    house.finish()
    job = house.get(job_id)
    assert (job.status, job.attempts) == (JobStatus.SUCCEEDED, 1)


def test_images_whose_processes_are_lost_are_encoded_by_the_next_ones(house):
    house.images.error = ProcessLost("its CPU process died")
    job_id = away(house)
    house.images.is_away = False
    wait_until(lambda: house.images.keys)
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_a_disk_that_stays_full_fails_the_job_with_its_cause(house):
    house.executor._patience_s = 0.0
    job_id = away(house)
    house.finish()
    failure = house.get(job_id).failure
    assert (failure.type, failure.detail) == ("objects_unavailable", "the disk is full")


def test_a_cancel_ends_the_wait_for_the_store(house):
    job_id = away(house)
    asyncio.run(house.jobs.cancel(job_id))
    house.executor.check(job_id)
    house.executor.start()
    wait_until(lambda: not house.executor.fences())
    assert house.get(job_id).status is JobStatus.CANCELED
    assert not house.images.keys


def test_of_a_canceled_job_no_image_stays_that_an_earlier_try_has_stored(house):
    house.images.room = 1
    job_id = away(house, n=2)
    fence = house.get(job_id).fence
    assert house.images.keys == [f"t/{job_id}/{fence}/0.png"]
    asyncio.run(house.jobs.cancel(job_id))
    house.executor.check(job_id)
    house.executor.start()
    wait_until(lambda: not house.executor.fences())
    assert set(house.images.keys) <= set(house.images.deleted)
    assert set(house.images.deleted) == {f"t/{job_id}/{fence}/{i}.png" for i in range(2)}


def test_of_a_job_that_could_not_be_stored_no_image_stays(house):
    house.executor._patience_s, house.images.room = 0.0, 1
    job_id = away(house, n=2)
    house.finish()
    assert house.get(job_id).status is JobStatus.FAILED
    assert house.images.keys
    assert set(house.images.keys) <= set(house.images.deleted)


def test_a_deadline_ends_the_wait_for_the_store(house):
    job_id = away(house, deadline_s=0.6)
    house.executor.start()
    wait_until(lambda: not house.executor.fences())
    assert house.get(job_id).status is JobStatus.EXPIRED
    assert "the disk is full" in str(house.endings[job_id].error)


def test_an_outcome_is_offered_again_while_the_store_is_away(house):
    job_id = house.submit()
    house.take(job_id)
    house.run()
    finish, tries = house.leases.finish, []

    def flaky(*args):
        tries.append(args)
        if len(tries) < 3:
            raise StoreUnavailable("away")
        return finish(*args)

    house.leases.finish = flaky
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED
    assert len(tries) == 3


def test_a_store_that_stays_away_is_why_a_job_has_not_ended(house, monkeypatch):
    monkeypatch.setattr("worker.jobs.claimed.PATIENCE_S", 0.0)
    job_id = house.submit()
    house.take(job_id)
    house.run()

    def away(*args):
        raise StoreUnavailable("away")

    house.leases.finish = away
    house.finish()
    assert isinstance(house.endings[job_id].error, StoreUnavailable)
    assert house.get(job_id).status is JobStatus.RUNNING  # until its lease runs out


def test_images_whose_publication_was_not_confirmed_are_not_deleted(house):
    job_id = house.submit()
    house.take(job_id)
    house.run()
    finish, tries = house.leases.finish, []

    def unconfirmed(*args):
        tries.append(args)
        answer = finish(*args)
        if len(tries) == 1:
            house.executor.lose(job_id, house.get(job_id).fence)  # a beat: the job runs no more
            raise StoreUnavailable("the answer was lost")
        return answer

    house.leases.finish = unconfirmed
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED
    assert house.images.deleted == []
    assert house.endings[job_id].images == 1


def test_a_job_whose_images_are_to_be_decoded_takes_no_slot(house):
    left = []
    ids = [house.submit() for _ in range(2)]
    for job_id in ids:
        house.executor.take(job_id, lambda ending: None, on_left=lambda: left.append(1))
    assert (house.executor.num_in_slots(), house.executor.num_finishing()) == (2, 0)
    house.executor.note_left(ids[0])
    assert (house.executor.num_in_slots(), house.executor.num_finishing()) == (1, 1)
    assert left == [1]
    house.executor.note_left("one that has ended")
    house.executor.lose(ids[1], house.get(ids[1]).fence)
    assert (house.executor.num_in_slots(), house.executor.num_finishing()) == (0, 1)
    assert left == [1]


def test_a_hub_that_is_gone_does_not_reach_the_engine(house):
    job_id, ended = house.submit(), {}

    def gone():
        raise OSError("closed")

    house.executor.take(job_id, lambda ending: ended.update(it=ending), on_left=gone)
    house.executor.note_left(job_id)
    house.run()
    house.finish()
    assert ended["it"].images == 1


def test_a_job_between_its_last_step_and_the_store_takes_no_slot(house):
    house.images.is_slow = True
    job_id = house.submit()
    house.take(job_id)
    assert house.executor.num_finishing() == 0
    house.run()
    assert house.executor.num_finishing() == 1
    house.images.held.pop()()
    house.finish()
    assert house.executor.num_finishing() == 0
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_a_dead_engine_ends_the_process_and_fails_nobody(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.engine._end = EngineError("a bug")
    house.engine._finish()
    assert house.deaths
    assert house.get(job_id).status is JobStatus.RUNNING  # until its lease runs out


@pytest.mark.parametrize(
    ("error", "type_"),
    [
        (BadWeights("unet.safetensors: truncated"), "bad_weights"),
        (EngineError("no"), "engine_error"),
        (ObjectsUnavailable("full"), "objects_unavailable"),
        (JobStopped("time limit"), "stopped"),
        (ValueError("secret detail"), "internal_error"),
    ],
)
def test_every_error_has_a_name_for_the_client(error, type_):
    failure = failure_of(error)
    assert failure.type == type_
    assert "secret" not in failure.detail


def test_an_expired_job_is_expired(house):
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.executor.stop(job_id, JobExpired("late"))
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.EXPIRED
    assert replace(house.get(job_id)).images == ()


def test_a_loss_noticed_late_does_not_stop_the_next_claim(house):
    """After a stall the heartbeat hears of the loss while the hub claims the same job anew."""
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.clock.now += 11.0
    asyncio.run(house.sweeper.reap())
    stop, is_noticed, may_stop = house.engine.stop, Event(), Event()

    def slow_stop(*args):
        is_noticed.set()
        may_stop.wait(60.0)
        stop(*args)

    house.engine.stop = slow_stop
    heartbeat = Thread(target=house.executor.lose, args=(job_id, house.get(job_id).fence))
    heartbeat.start()
    is_noticed.wait(60.0)
    house.engine.stop = stop
    hub = Thread(target=house.take, args=(job_id,))
    hub.start()
    hub.join(0.1)
    may_stop.set()
    heartbeat.join()
    hub.join()
    house.settle()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


EDIT = Edit(template="t/j/template.png", template_sha256="ab", mask="t/j/mask.png")


def test_an_edit_is_made_once_its_images_are_there(house):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    assert house.take(job_id)
    assert not house.engine.step()
    [answer] = house.images.asked
    answer.set_result(EditInputs(template=None, mask=None, strength=1.0))
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_an_edit_whose_template_is_gone_fails_and_says_so(house):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    house.images.asked[0].set_exception(EngineError("the template of this job is gone"))
    house.finish()
    job = house.get(job_id)
    assert job.status is JobStatus.FAILED
    assert "template of this job is gone" in job.failure.detail
    assert house.executor.fences() == {}


def test_an_edit_waits_for_a_store_that_does_not_give_its_images(house):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    house.images.asked[0].set_exception(ObjectsUnavailable("away"))
    wait_until(lambda: len(house.images.asked) == 2)
    house.images.asked[1].set_result(EditInputs(template=None, mask=None, strength=1.0))
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_an_edit_canceled_while_its_images_are_read_never_reaches_the_engine(house):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    asyncio.run(house.jobs.cancel(job_id))
    house.executor.check(job_id)
    house.images.asked[0].set_result(EditInputs(template=None, mask=None, strength=1.0))
    assert not house.engine.step()
    house.finish()
    assert house.get(job_id).status is JobStatus.CANCELED
    assert house.executor.fences() == {}


@pytest.mark.parametrize("is_away", [False, True])
def test_an_edit_that_is_stopped_while_its_images_are_read_is_not_made(house, is_away):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    house.executor.stop(job_id, JobCanceled("revoked by an operator"))
    if is_away:
        house.images.asked[0].set_exception(ObjectsUnavailable("away"))
    else:
        house.images.asked[0].set_result(EditInputs(template=None, mask=None, strength=1.0))
    assert not house.engine.step()
    house.finish()
    assert house.get(job_id).status is JobStatus.CANCELED
    assert "revoked" in str(house.endings[job_id].error)
    assert len(house.images.asked) == 1, "what is read for nobody is not asked for again"


def test_images_that_are_stored_are_stored_though_their_job_is_stopped_too_late(house):
    job_id = away(house)
    house.run()
    house.executor.stop(job_id, JobCanceled("revoked by an operator"))
    house.images.is_away = False
    wait_until(lambda: house.images.keys)
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED


def test_an_edit_whose_model_leaves_while_its_images_are_read_goes_back_uncharged():
    states = States()
    house = House(states=states)
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    house.engine.detach("m")
    house.images.asked[0].set_result(EditInputs(template=None, mask=None, strength=1.0))
    assert gone_back(house, job_id)
    assert states.told == [("lose", job_id)], "others go on from where it stood"


def test_a_job_whose_model_leaves_while_it_is_found_where_it_stood_goes_back_uncharged():
    found = Future()
    house = House(find_states=lambda claim: found)
    job_id = house.submit()
    house.take(job_id)
    house.engine.detach("m")
    found.set_result({})
    assert gone_back(house, job_id)


def test_a_canceled_job_does_not_go_back_though_its_model_has_left(house):
    job_id = house.submit(task=Task.EDIT, edit=EDIT)
    house.take(job_id)
    house.engine.detach("m")
    house.images.asked[0].set_result(EditInputs(template=None, mask=None, strength=1.0))
    asyncio.run(house.jobs.cancel(job_id))
    house.finish()
    assert house.get(job_id).status is JobStatus.CANCELED
    assert house.store.stats["released"] == 0


def test_a_job_goes_back_once_a_store_that_was_away_takes_it(house):
    job_id = house.submit()
    house.engine.detach("m")
    house.take(job_id)
    release, tries = house.leases.release, []

    def flaky(held):
        tries.append(held)
        if len(tries) < 3:
            raise StoreUnavailable("away")
        return release(held)

    house.leases.release = flaky
    assert gone_back(house, job_id)
    assert len(tries) == 3


def borrowing(house, data, skip=20, **request):
    """Make a job to its end whose latents are read as `data`, or not at all."""
    job_id = house.submit(skip=skip, steps=50, **request)
    house.take(job_id)
    if house.images.asked:
        [answer] = house.images.asked
        answer.set_result(None if data is None else Borrowed(skipped_steps=skip, data=data))
    steps = 0
    while house.engine.step():
        steps += 1
    house.finish()
    return house.get(job_id), steps


def test_a_job_goes_on_from_the_latents_that_it_was_placed_with(house):
    job, steps = borrowing(house, b"latents")
    assert (job.status, steps) == (JobStatus.SUCCEEDED, 30)
    assert (job.placement.level, job.placement.skipped_steps) == ("m@20", 20)
    assert house.store.stats["level:m@20"] == 1


@pytest.mark.parametrize("data", [None, b""], ids=["not to be had", "not to be used"])
def test_without_them_it_takes_all_steps_and_says_so(house, data):
    job, steps = borrowing(house, data)
    assert (job.status, steps) == (JobStatus.SUCCEEDED, 50)
    place = job.placement
    assert (place.level, place.skipped_steps, place.start) == ("m@0", 0, None)
    assert house.store.stats["level:m@0"] == 1


@pytest.mark.parametrize("request_", [{"n": 2}, {"quality": Quality.EXACT}])
def test_several_images_and_exact_ones_start_from_noise(house, request_):
    job, steps = borrowing(house, b"latents", **request_)
    assert not house.images.asked
    assert job.placement.level == "m@0"
    assert steps >= 50, "two images may take some steps one by one"


def test_what_a_job_leaves_behind_is_lent_once_it_is_delivered(house):
    statuses = []
    house.executor._finisher._lend = lambda job, made: statuses.append(house.get(job.id).status)
    job_id = house.submit()
    house.take(job_id)
    house.run()
    house.finish()
    assert statuses == [JobStatus.SUCCEEDED]


def test_what_failed_or_was_lost_lends_nothing(house):
    house.executor._patience_s = 0.0
    job_id = away(house)
    house.finish()
    assert house.get(job_id).status is JobStatus.FAILED
    assert house.lent == []


def test_steps_that_are_skipped_count_as_done(house):
    job_id = house.submit(skip=20, steps=50)
    house.take(job_id)
    house.images.asked[0].set_result(Borrowed(skipped_steps=20, data=b"latents"))
    seen = []
    while house.engine.step():
        seen += [progress.step for progress in house.engine.progress().values()]
    assert seen == list(range(21, 50))  # at 50 it has left the engine


def test_what_is_kept_of_a_job_is_deleted_with_its_end_unless_others_have_it():
    states = States()
    house = House(states=states)
    made, lost = house.submit(), house.submit()
    house.take(made)
    held = house.take(lost)
    house.executor.lose(held, house.executor.fences()[held])
    house.run()
    house.finish()
    assert sorted(states.told) == sorted([("end", made), ("lose", lost)])


def test_a_job_begins_with_what_was_found_of_it():
    found = []

    def find(claim):
        found.append(claim.earlier)
        data = np.full(1, 9, np.float32).tobytes()
        return resolved({0: ImageState(identity="", step=3, steps=5, payload=data)})

    house = House(find_states=find)
    job_id = house.submit(steps=5)
    house.take(job_id)
    house.engine.step()
    assert found == [()]
    assert house.engine.progress()[job_id].step == 4
    house.run()
    house.finish()
    assert house.get(job_id).status is JobStatus.SUCCEEDED
