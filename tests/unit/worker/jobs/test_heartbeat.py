import asyncio
import time

from core.errors import StoreUnavailable
from core.job import JobStatus, Progress
from storage.fakes import MemoryEvents
from tests.unit.worker.house import House
from worker.jobs.heartbeat import Heartbeat


class Reports:
    count = 0

    def __call__(self):
        self.count += 1


class Previews:
    """Has one preview for whoever takes it."""

    def __init__(self, *documents):
        self.documents, self.wanted = list(documents), []

    def take(self):
        return self.documents.pop() if self.documents else {}

    def want(self, watched):
        self.wanted += watched


def a_heartbeat(house, progress=dict, report=None, beat_s=3.0, previews=None):
    return Heartbeat(
        clock=house.clock,
        previews=previews,
        leases=house.leases,
        holder=house.executor,
        progress=progress,
        report=report or Reports(),
        beat_s=beat_s,
    )


def test_a_beat_keeps_the_lease():
    house = House()
    job_id = house.submit()
    house.take(job_id)
    house.clock.now += 8.0
    a_heartbeat(house).beat()
    assert house.store.records[job_id].lease_until == house.clock.now + 10.0


def test_a_beat_drops_what_belongs_to_somebody_else_by_now():
    house = House()
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.store.requeue(house.store.records[job_id], "reaped")
    a_heartbeat(house).beat()
    house.engine.step()
    assert not house.engine.running


def follow(house, job_id, previews=False):
    asyncio.run(MemoryEvents(house.store).announce(job_id, 3600, previews=previews))


def told(house, job_id):
    return [e.data["step"] for e in house.store.events[job_id] if e.event == "progress"]


def test_only_news_is_told_and_at_most_once_a_second():
    house = House()
    job_id = house.submit(steps=9)
    follow(house, job_id)
    house.take(job_id)
    heartbeat = a_heartbeat(house, progress=house.engine.progress)
    heartbeat.tell_progress()
    house.engine.step()
    heartbeat.tell_progress()
    house.clock.now += 1.0
    heartbeat.tell_progress()
    assert told(house, job_id) == [1]
    for _ in range(12):
        house.engine.step()
        house.clock.now += 0.25
        heartbeat.tell_progress()
    assert told(house, job_id) == [1, 2, 6]


def test_what_nobody_follows_is_noted_with_the_lease_alone():
    house = House()
    job_id = house.submit(steps=4)
    house.take(job_id)
    heartbeat = a_heartbeat(house, progress=house.engine.progress)
    house.engine.step()
    heartbeat.tell_progress()
    assert house.get(job_id).progress.step == 0
    heartbeat.beat()
    assert house.get(job_id).progress == Progress(step=1, steps=4)
    assert not told(house, job_id)


def test_previews_are_asked_for_where_followers_want_them():
    house, previews = House(), Previews()
    shown, followed, other = (house.submit(steps=4) for _ in range(3))
    follow(house, shown, previews=True), follow(house, followed)
    for job_id in (shown, followed, other):
        house.take(job_id)
    a_heartbeat(house, progress=house.engine.progress, previews=previews).tell_progress()
    assert previews.wanted == [shown]


def test_a_preview_is_told_once_though_its_step_is_no_news():
    house = House()
    job_id = house.submit(steps=4)
    follow(house, job_id, previews=True)
    house.take(job_id)
    previews = Previews({}, {job_id: '{"step":1,"preview":"abcd"}'}, {})
    heartbeat = a_heartbeat(house, progress=house.engine.progress, previews=previews)
    house.engine.step()
    heartbeat.tell_progress()
    heartbeat.tell_progress()
    assert told(house, job_id) == [1]
    for _ in range(2):
        house.clock.now += 1.0
        heartbeat.tell_progress()
    assert told(house, job_id) == [1, 1]
    assert house.store.previews[job_id] == {"step": 1, "preview": "abcd"}


def test_a_store_that_is_away_does_not_stop_the_heart():
    house = House()
    reports, beats = Reports(), []

    def beat(held, done):
        beats.append(held)
        if len(beats) < 3:
            raise StoreUnavailable("away")
        return []

    house.leases.beat = beat
    heartbeat = a_heartbeat(house, report=reports, beat_s=0.01)
    heartbeat.start()
    until = time.monotonic() + 5.0
    while len(beats) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    heartbeat.stop()
    assert len(beats) >= 4
    assert reports.count >= 1


def test_an_order_to_stop_reaches_the_engine():
    house = House()
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.store.close(house.store.records[job_id], JobStatus.CANCELED)
    house.store.stops["w1"].put(job_id)
    heartbeat = a_heartbeat(house)
    heartbeat.start()
    until = time.monotonic() + 5.0
    while house.engine.running and time.monotonic() < until:
        house.engine.step()
    heartbeat.stop()
    assert not house.engine.running
