import time

from core.errors import StoreUnavailable
from core.job import JobStatus, Progress
from tests.unit.worker.house import House
from worker.jobs.heartbeat import Heartbeat


class Reports:
    count = 0

    def __call__(self):
        self.count += 1


class Pictures:
    """Has one picture for whoever takes it."""

    def __init__(self, *documents):
        self.documents, self.wanted = list(documents), []

    def take(self):
        return self.documents.pop() if self.documents else {}

    def want(self, watched):
        self.wanted += watched


def a_heart(house, progress=dict, report=None, beat_s=3.0, pictures=None):
    return Heartbeat(
        pictures=pictures,
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
    a_heart(house).beat()
    assert house.store.records[job_id].lease_until == house.clock.now + 10.0


def test_a_beat_drops_what_belongs_to_somebody_else_by_now():
    house = House()
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.store.requeue(house.store.records[job_id], "reaped")
    a_heart(house).beat()
    house.engine.step()
    assert not house.engine.running


def test_only_news_is_told():
    house = House()
    job_id = house.submit(steps=4)
    house.take(job_id)
    heart = a_heart(house, progress=house.engine.progress)
    heart.tell_progress()
    house.engine.step()
    heart.tell_progress()
    heart.tell_progress()
    house.engine.step()
    heart.tell_progress()
    told = [e.data["step"] for e in house.store.events[job_id] if e.event == "progress"]
    assert told == [1, 2]
    assert house.get(job_id).progress == Progress(step=2, steps=4)


def test_who_tells_progress_hears_which_jobs_are_watched():
    house, pictures = House(), Pictures()
    watched, other = house.submit(steps=4), house.submit(steps=4)
    house.take(watched), house.take(other)
    house.store.watched[watched] = house.clock.now + 10.0
    heart = a_heart(house, progress=house.engine.progress, pictures=pictures)
    house.engine.step()
    heart.tell_progress()
    assert pictures.wanted == [watched]


def test_a_preview_is_told_though_its_step_is_no_news():
    house = House()
    job_id = house.submit(steps=4)
    house.take(job_id)
    pictures = Pictures({job_id: '{"step":1,"preview":"abcd"}'}, {})
    heart = a_heart(house, progress=house.engine.progress, pictures=pictures)
    house.engine.step()
    heart.tell_progress()
    heart.tell_progress()
    told = [e.data["step"] for e in house.store.events[job_id] if e.event == "progress"]
    assert told == [1, 1]
    assert house.store.previews[job_id] == {"step": 1, "preview": "abcd"}


def test_a_store_that_is_away_does_not_stop_the_heart():
    house = House()
    reports, beats = Reports(), []

    def beat(held):
        beats.append(held)
        if len(beats) < 3:
            raise StoreUnavailable("away")
        return []

    house.leases.beat = beat
    heart = a_heart(house, report=reports, beat_s=0.01)
    heart.start()
    until = time.monotonic() + 5.0
    while len(beats) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    heart.stop()
    assert len(beats) >= 4
    assert reports.count >= 1


def test_an_order_to_stop_reaches_the_engine():
    house = House()
    job_id = house.submit(steps=50)
    house.take(job_id)
    house.engine.step()
    house.store.close(house.store.records[job_id], JobStatus.CANCELED)
    house.store.stops["w1"].put(job_id)
    heart = a_heart(house)
    heart.start()
    until = time.monotonic() + 5.0
    while house.engine.running and time.monotonic() < until:
        house.engine.step()
    heart.stop()
    assert not house.engine.running
