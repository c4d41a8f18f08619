"""A hang of the engine, noticed by whoever renews its leases."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest

from core.job import JobStatus
from core.model import Model
from tests.unit.worker.fake import FakeRunner
from tests.unit.worker.house import House
from worker.awake_clock import AwakeClock
from worker.engine.stats import Activity
from worker.engine.step_limits import StepLimits
from worker.engine.watchdog import LOOK_S, STEERED_S, Watch, frames_of

MODEL = Model(name="m", family="fake")


def an_activity(**changes):
    fields = {"doing": "denoising", "model": MODEL, "shape": 1, "rows": 1, "pixels": 64 * 64}
    return Activity(**{**fields, "jobs": ("j",), "is_steered": False, **changes})


class Engine:
    activity = None


class World:
    """An engine that is watched, and a clock that its looks turn."""

    def __init__(self):
        self.engine, self.hangs, self.now = Engine(), [], 0.0
        self.limits = StepLimits(10.0)
        self.watch = Watch(
            self.engine,
            self.limits,
            expect=lambda activity: 0.1,
            on_hang=self.hangs.append,
            clock=lambda: self.now,
        )

    def look_for(self, seconds):
        for _ in range(int(seconds / LOOK_S)):
            self.watch.look()
            self.now += LOOK_S


@pytest.fixture
def world():
    return World()


def known(world, activity):
    for _ in range(9):
        world.limits.note(activity.key, 0.1)
    return activity


def test_a_step_beyond_its_limit_is_a_hang(world):
    world.engine.activity = known(world, an_activity())
    world.look_for(10.0)
    assert not world.hangs
    world.look_for(1.5)
    assert world.hangs[0].activity is world.engine.activity
    assert world.hangs[0].limit_s == 10.0


def test_steps_that_follow_each_other_are_none(world):
    for _ in range(50):
        world.engine.activity = known(world, an_activity())
        world.look_for(8.0)
    assert not world.hangs


def test_an_engine_without_work_is_none(world):
    world.look_for(100.0)
    assert not world.hangs


def test_a_process_that_was_stopped_as_a_whole_does_not_hang(world):
    world.engine.activity = known(world, an_activity())
    world.look_for(5.0)
    world.now += 3600.0
    world.look_for(3.0)
    assert not world.hangs


def test_a_step_that_waits_for_other_processes_may_take_longer(world):
    world.engine.activity = known(world, an_activity(is_steered=True))
    world.look_for(STEERED_S)
    assert not world.hangs
    world.look_for(15.0)
    assert world.hangs


def test_a_late_look_counts_as_one_in_time():
    clock = AwakeClock(1.0)
    assert [clock.look(at) for at in (5.0, 5.5, 105.5, 106.0)] == [0.0, 0.5, 1.5, 2.0]


def test_what_hangs_is_handed_on_as_a_lost_attempt_and_the_rest_as_if_never_begun():
    house = House()
    hung, other = house.submit(steps=50), house.submit(steps=50)
    house.take(hung)
    house.take(other)
    house.executor.hand_over.abandon([hung])
    assert (house.get(other).status, house.get(other).attempts) == (JobStatus.QUEUED, 0)
    asyncio.run(house.sweeper.reap())
    assert (house.get(hung).status, house.get(hung).attempts) == (JobStatus.QUEUED, 1)


def test_a_forward_pass_that_never_ends_is_what_the_engine_is_at():
    house, runner, is_there = House(), FakeRunner("t"), threading.Event()
    may_end = threading.Event()
    runner.before_forward = lambda: (is_there.set(), may_end.wait(60.0))
    house.engine.attach(runner)
    job_id = house.submit()
    house.store.records[job_id].job = _with_model(house.get(job_id), "t")
    house.engine.start()
    house.take(job_id)
    assert is_there.wait(60.0)
    assert (house.engine.activity.doing, house.engine.activity.jobs) == ("denoising", (job_id,))
    assert any("before_forward" in line for line in frames_of("engine"))
    may_end.set()
    until = time.monotonic() + 5.0
    while house.engine.activity is not None and time.monotonic() < until:
        time.sleep(0.005)
    house.engine.close()
    assert house.engine.activity is None


def _with_model(job, model):
    return replace(job, request=replace(job.request, model=model))
