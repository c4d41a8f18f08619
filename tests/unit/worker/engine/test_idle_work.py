import threading

import pytest

from core.errors import EngineError
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.fake import FakeRunner
from worker.engine.idle_work import GivenUp

MODEL = FakeRunner().model


class Parts:
    """Notes what is done, and asks before each whether it may."""

    def __init__(self, engine, count=3):
        self.engine, self.count, self.done = engine, count, []

    def __iter__(self):
        for number in range(self.count):
            yield lambda number=number: self._do(number)

    def _do(self, number):
        self.engine.give_way()
        self.done.append(number)


def run_idle(engine):
    while engine._idle.tasks:
        engine.step()
        engine._idle.run_part()


def test_parts_are_done_while_there_are_no_jobs():
    engine = an_engine()
    parts = Parts(engine)
    ended = engine.when_idle(MODEL, iter(parts))
    run_idle(engine)
    assert parts.done == [0, 1, 2] and ended.result(0) is None


def test_a_part_is_given_up_for_a_job_and_done_again_after_it():
    engine = an_engine()
    parts = Parts(engine)
    engine.when_idle(MODEL, iter(parts))
    engine._idle.run_part()
    job = engine.add(a_job("a", steps=2), None)
    engine._idle.run_part()
    assert parts.done == [0]
    run_out(engine)
    assert job.result(0).job_id == "a"
    run_idle(engine)
    assert parts.done == [0, 1, 2]


def test_no_part_is_done_between_the_steps_of_a_job() -> None:
    runner, seen = FakeRunner(), []
    engine = an_engine(runner)
    parts = Parts(engine)
    runner.before_forward = lambda: seen.append(len(parts.done))
    job, ended = engine.add(a_job("a", steps=5), None), engine.when_idle(MODEL, iter(parts))
    engine.start()
    assert job.result(60) and ended.result(60) is None
    engine.close()
    assert seen == [0] * 5 and len(parts.done) == 3


def test_a_part_that_fails_ends_its_task_and_nothing_else():
    engine = an_engine()
    ended = engine.when_idle(MODEL, iter([lambda: 1 / 0]))
    run_idle(engine)
    assert isinstance(ended.exception(0), ZeroDivisionError)
    job = engine.add(a_job("a", steps=1), None)
    run_out(engine)
    assert job.result(0)


def test_a_device_that_breaks_meanwhile_ends_the_engine():
    class AcceleratorError(RuntimeError):
        pass

    def break_down():
        raise AcceleratorError("an illegal memory access")

    engine = an_engine()
    engine.when_idle(MODEL, iter([break_down]))
    engine.start()
    assert engine.close(60.0) and not engine.stats().is_alive
    assert isinstance(error_of(engine.add(a_job("late"), None)), EngineError)


def test_a_model_that_goes_is_not_worked_on_any_more():
    engine = an_engine()
    parts = Parts(engine)
    ended = engine.when_idle(MODEL, iter(parts))
    engine.detach(MODEL.name)
    engine.step()
    assert ended.done() and not parts.done
    assert not engine._idle.tasks


def test_whoever_drops_a_task_waits_for_its_part_which_gives_way():
    engine = an_engine()
    has_begun, dropping = threading.Event(), threading.Event()

    def part():
        has_begun.set()
        assert dropping.wait(60.0)
        while True:
            engine.give_way()

    engine.start()
    ended = engine.when_idle(MODEL, iter([part]))
    assert has_begun.wait(60.0)
    dropping.set()
    engine.drop_idle(MODEL.name)
    assert ended.done()
    engine.close()


def test_an_engine_that_closes_leaves_everything():
    engine = an_engine()
    ended = engine.when_idle(MODEL, iter(Parts(engine)))
    engine.close()
    assert ended.done()
    assert engine.when_idle(MODEL, iter([])).done()
    with pytest.raises(GivenUp):
        engine.give_way()


def test_what_is_done_is_seen_from_outside():
    engine = an_engine()
    seen = []
    engine.when_idle(MODEL, iter([lambda: seen.append(engine.activity)]))
    run_idle(engine)
    assert (seen[0].doing, seen[0].model) == ("timing", MODEL)
    assert engine.activity is None
