from dataclasses import replace

import pytest

from scheduler.planning.worker_stats import StartCounts, model_slowness, slowness
from scheduler.routing.holders import SLOWNESS
from tests.unit.scheduler.fakes import a_worker


def reads(name: str, read: int, late: int):
    return replace(a_worker(name), starts_read=read, starts_late=late)


def test_only_what_is_new_counts() -> None:
    counts = StartCounts()
    assert counts.news([reads("w0", 100, 90)]) == (0, 0)  # it was there before we were
    assert counts.news([reads("w0", 107, 91)]) == (6, 1)
    assert counts.news([reads("w0", 107, 91)]) == (0, 0)


def test_workers_add_up_and_one_started_again_counts_from_nothing() -> None:
    counts = StartCounts()
    counts.news([reads("w0", 50, 0), reads("w1", 10, 0)])
    assert counts.news([reads("w0", 3, 2), reads("w1", 12, 1)]) == (2, 3)


def test_a_worker_that_was_away_for_a_while_brings_what_it_saw_meanwhile() -> None:
    counts = StartCounts()
    counts.news([reads("w0", 5, 0)])
    counts.news([])
    assert counts.news([reads("w0", 9, 3)]) == (1, 3)


def test_each_type_is_as_slow_as_its_middle_worker() -> None:
    speeds = {"w0": 1.2, "w1": 1.4, "w2": 9.0, "new": 0.0}
    workers = [replace(a_worker(name), slowness=times) for name, times in speeds.items()]
    gpu = replace(a_worker("g0", device_type="gpu"), slowness=0.5)
    assert slowness([*workers, gpu]) == {"cpu": 1.4, "gpu": 0.5}
    assert slowness([a_worker("new")]) == {}


def test_a_model_is_as_slow_as_the_middle_one_of_those_that_serve_it_alone() -> None:
    speeds = [("base", 1.2), ("base", 1.4), ("base", 9.0), ("small", 0.8), ("new", 0.0)]
    workers = [
        replace(a_worker(f"w{i}", model), slowness=times) for i, (model, times) in enumerate(speeds)
    ]
    both = replace(a_worker("w9", "base", "small"), slowness=7.0)
    assert model_slowness([*workers, both]) == {("cpu", "base"): 1.4, ("cpu", "small"): 0.8}


@pytest.mark.parametrize("times", [0.001, 1000.0])
def test_nonsense_is_not_planned_by(times: float) -> None:
    workers = [replace(a_worker("w0", "base"), slowness=times)]
    for known in (slowness(workers), model_slowness(workers)):
        (counted,) = known.values()
        assert counted in SLOWNESS
