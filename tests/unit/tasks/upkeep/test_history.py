import pytest

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.boards.sample import ServiceSample
from core.boards.score import Score
from storage.boards.history import EVERY_S
from storage.fakes import MemoryHistory, MemoryScores
from tasks.upkeep.history import LOOK, HistoryRecorder, SampleSources, percentile, sample


class Service:
    """What a recorder looks at, at a time that a test sets."""

    def __init__(self):
        self.now, self.workers, self.plan, self.since = 1000.0, [], None, []
        self.history = MemoryHistory(clock=lambda: self.now)
        self.scores = MemoryScores(clock=lambda: self.now)

    def recorder(self):
        sources = SampleSources(
            now=self.read_clock,
            stats=self.stats,
            fleet=self.fleet,
            depths=self.depths,
            plan=self.read_plan,
            latencies=self.latencies,
        )
        return HistoryRecorder(self.history, self.scores, sources)

    async def read_clock(self):
        return self.now

    async def stats(self):
        return {"submitted": 3}

    async def fleet(self):
        return self.workers

    async def read_plan(self):
        return self.plan

    async def depths(self):
        return [QueueDepth(queue="gen.m", waiting=2, oldest_s=1.0)]

    async def latencies(self, since, limit):
        self.since.append((since, limit))
        return [3.0, 1.0, 2.0]

    async def score(self, *qualities):
        await self.scores.add(
            [Score(job="j", prompt="", level="m@0", quality=each) for each in qualities]
        )


def a_worker(name, running):
    return Worker(
        name=name, device_type="cpu", models=(), queues=(), memory_gib=1.0, running=running
    )


def a_plan(**demand):
    return Plan(
        version=1,
        fence=1,
        made_at=0.0,
        policy="test",
        assignments={},
        pasm=(),
        demand=demand,
        saturation=0.5,
    )


async def test_a_sample_is_taken_when_the_last_one_is_old_enough():
    service = Service()
    recorder = service.recorder()
    for now in (1000.0, 1000.0 + EVERY_S / 2, 1000.0 + EVERY_S, 1001.0 + EVERY_S):
        service.now = now
        await recorder.run()
    assert [each.at for each in await service.history.list()] == [1000.0, 1000.0 + EVERY_S]
    assert service.since == [(1000.0 - EVERY_S, LOOK), (1000.0, LOOK)]


async def test_another_leader_goes_on_where_the_last_one_stopped():
    service = Service()
    await service.recorder().run()
    service.now += EVERY_S / 2
    await service.recorder().run()
    assert len(await service.history.list()) == 1


async def test_samples_go_by_the_clock_that_stamps_them_however_wrong_upkeeps_is():
    service = Service()
    service.now = 4e9  # decades after the one that this process reads
    for _ in range(3):
        await service.recorder().run()
        service.now += EVERY_S
    assert len(await service.history.list()) == 3
    assert service.since[0] == (4e9 - EVERY_S, LOOK)


async def test_a_sample_says_how_things_stand():
    found = sample(
        [a_worker("a", 3), a_worker("b", 0)],
        [
            QueueDepth(queue="gen.a", waiting=2, oldest_s=1.0),
            QueueDepth(queue="gen.b", waiting=1, oldest_s=4.0),
        ],
        a_plan(one=0.5, other=0.25),
    )
    assert found == ServiceSample(
        devices={"cpu": 2},
        busy=1,
        running=3,
        slots=16,
        waiting=3,
        oldest_s=4.0,
        forecast=0.75,
        saturation=0.5,
    )
    assert sample([], [], None) == ServiceSample()


async def test_the_quality_is_the_mean_of_what_was_scored_since_the_last_sample():
    service = Service()
    recorder = service.recorder()
    await service.score(0.1)
    await recorder.run()
    await service.score(*[0.5] * LOOK, 1.0)
    for _ in range(2):
        service.now += EVERY_S
        await recorder.run()
    first, second, third = await service.history.list()
    assert (first.quality, first.scored) == (None, 0)
    assert second.quality == pytest.approx(0.5 + 0.5 / (LOOK + 1))
    assert second.scored == LOOK + 1
    assert third.scored == 0
    assert (first.counters, first.p50_s, first.p95_s) == ({"submitted": 3}, 2.0, 3.0)


@pytest.mark.parametrize(
    ("count", "share", "found"), [(1, 0.5, 1), (100, 0.95, 95), (101, 0.5, 51), (19, 0.95, 19)]
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(count, share, found):
    assert percentile([float(each) for each in range(count, 0, -1)], share) == found
    assert percentile([], share) is None
