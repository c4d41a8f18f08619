"""A device that hangs under a ControlNet, noticed by looks at a clock of the tests."""

import pytest

from worker.control.server.compute_watch import EXPECTED_S, ComputeWatch
from worker.engine.watchdog import LOOK_S


class World:
    """What one thread computes, and a clock that looks turn."""

    def __init__(self):
        self.hangs, self.now = [], 0.0
        self.watch = ComputeWatch(
            "controlnets",
            least_s=10.0,
            expected_s=EXPECTED_S,
            on_hang=lambda: self.hangs.append(self.now),
            clock=lambda: self.now,
        )

    def compute(self, key, seconds):
        with self.watch.computing("edges", key):
            for _ in range(int(seconds / LOOK_S)):
                self.watch.look()
                self.now += LOOK_S

    def know(self, key, seconds):
        for _ in range(9):
            self.compute(key, seconds)


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(
    ("usual_s", "limit_s"),
    [(0.0, 10.0), (1.0, 20.0), (5.0, 100.0)],
    ids=["the least", "by its like", "by its like, which takes long"],
)
@pytest.mark.parametrize("is_beyond", [False, True])
def test_a_call_beyond_its_limit_is_a_hang(world, usual_s, limit_s, is_beyond):
    world.know("a", usual_s)
    world.compute("a", limit_s + 2.0 * is_beyond)
    assert bool(world.hangs) == is_beyond


@pytest.mark.parametrize("is_beyond", [False, True])
def test_one_whose_like_nobody_has_seen_has_a_minute_on_an_accelerator(world, is_beyond):
    world.compute("a", 60.0 + 2.0 * is_beyond)
    assert bool(world.hangs) == is_beyond


def test_nobody_can_say_what_one_takes_on_a_cpu(world):
    world.watch._expected_s = None
    world.compute("a", 600.0)
    assert not world.hangs


def test_one_that_tells_of_its_parts_does_not_hang(world):
    world.know("a", 0.0)
    with world.watch.computing("edges", "a"):
        for _ in range(10):
            world.watch.note_progress()
            for _ in range(int(8.0 / LOOK_S)):
                world.watch.look()
                world.now += LOOK_S
    assert not world.hangs


def test_calls_that_follow_each_other_and_pauses_are_none(world):
    world.know("a", 0.0)
    for _ in range(20):
        world.compute("a", 8.0)
    for _ in range(1000):
        world.watch.look()
        world.now += LOOK_S
    assert not world.hangs


def test_a_process_that_was_stopped_as_a_whole_does_not_hang(world):
    world.know("a", 0.0)
    with world.watch.computing("edges", "a"):
        world.watch.look()
        world.now += 3600.0
        world.watch.look()
    assert not world.hangs


def test_one_that_failed_is_over(world):
    with pytest.raises(ZeroDivisionError), world.watch.computing("edges", "a"):
        raise ZeroDivisionError
    for _ in range(1000):
        world.watch.look()
        world.now += LOOK_S
    assert not world.hangs


def test_whoever_hangs_is_ended_though_nobody_can_be_told(world, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("worker.control.server.compute_watch.log.critical", full)
    with pytest.raises(OSError, match="space"):
        world.compute("a", 62.0)
    assert world.hangs
