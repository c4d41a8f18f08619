"""Prompts are encoded beside the steps of others, who wait for none that takes long."""

import threading
from concurrent.futures import wait

import numpy as np
import pytest

from core.errors import EngineError, JobCanceled
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.fake import FakeRunner, value_of
from worker.engine.prompts import MOST_STEPS, SHARE_WAITED, THREAD, PromptEncoding
from worker.engine.slot import Ticket

LIMIT_S = 20.0


class ReadingRunner(FakeRunner):
    """Encodes a prompt when it is let, and says in which thread."""

    def __init__(self):
        super().__init__()
        self.may_go_on, self.read, self.opened = threading.Event(), [], []

    def encoding(self, request):
        if request.prompt == "kept":
            return None
        return lambda: self._encode(request)

    def _encode(self, request):
        assert self.may_go_on.wait(LIMIT_S)
        self.read.append((request.seed, threading.current_thread().name))
        if request.prompt == "fail encoding":
            raise ValueError("a poisoned prompt")

    def open(self, request, seed, inputs=None):
        self.opened.append((seed, [read for read, _ in self.read]))
        return super().open(request, seed, inputs)


def beside(runner):
    """An engine with a long image on its way, whose steps take a second as far as it knows."""
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=40), None)
    engine.step()
    engine._batch.next_batch.step_s["tiny"] = 1.0
    return engine


def usually(engine, seconds):
    engine._prompts._usual_s["tiny"] = seconds


def test_with_nobody_to_wait_for_it_a_prompt_is_encoded_where_its_image_is_opened():
    runner = ReadingRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=1, steps=1), None)
    engine.step()
    assert runner.opened == [(1, [])]


def test_who_comes_while_others_step_is_encoded_beside_them_and_joins_at_the_next():
    runner = ReadingRunner()
    engine = beside(runner)
    runner.may_go_on.set()
    short = engine.add(a_job("short", seed=2, steps=2), None)
    engine.step()
    assert runner.batches[-1] == [1, 2]
    [(seed, thread)] = runner.read
    assert seed == 2 and thread.startswith(THREAD)
    assert runner.opened[-1] == (2, [2]), "it is opened once its prompt is encoded"
    run_out(engine)
    assert np.all(short.result(0).images[0] == value_of(2, 2))


@pytest.mark.parametrize("usual_s, batch", [(SHARE_WAITED, [1, 2]), (1.01 * SHARE_WAITED, [1])])
def test_others_wait_for_a_prompt_that_takes_little_of_a_step(usual_s, batch):
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, usual_s)
    engine.add(a_job("short", seed=2, steps=2), None)
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == batch


def test_who_was_not_waited_for_joins_once_its_prompt_is_encoded():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1.0)
    engine.add(a_job("short", seed=2, steps=2), None)
    [pending] = engine._inbox
    for _ in range(3):
        engine.step()
    assert runner.batches == [[1]] * 4
    runner.may_go_on.set()
    wait([pending.encoded], LIMIT_S)
    engine.step()
    assert runner.batches[-1] == [1, 2]


def test_others_go_on_without_it_for_some_steps_and_no_more():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1.0)
    engine.add(a_job("short", seed=2, steps=2), None)
    for _ in range(MOST_STEPS):
        engine.step()
    assert runner.batches[-1] == [1]
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == [1, 2]


def test_with_nobody_left_who_steps_it_is_waited_for():
    runner = ReadingRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=2), None)
    engine.step()
    usually(engine, 1e6)
    late = engine.add(a_job("late", seed=2, steps=1), None)
    engine.step()
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert late.done()


def test_a_prompt_that_is_kept_waits_for_no_other():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1.0)
    engine.add(a_job("z", seed=3, steps=2, prompt="kept"), None)
    engine.step()
    assert runner.batches[-1] == [1, 3]


def test_a_prompt_that_fails_ahead_is_opened_as_if_nobody_had_tried():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner)
    good = engine.add(a_job("good", seed=2, steps=2, prompt="fail encoding"), None)
    bad = engine.add(a_job("bad", seed=3, steps=2, prompt="fail open"), None)
    run_out(engine)
    assert good.result(0) and isinstance(error_of(bad), EngineError)


def test_a_job_that_is_canceled_while_its_prompt_is_encoded_is_never_opened():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1.0)
    canceled = engine.add(a_job("canceled", seed=2, steps=2), None)
    engine.step()
    engine.stop("canceled", JobCanceled("asked to"))
    engine.step()
    runner.may_go_on.set()
    run_out(engine)
    assert isinstance(error_of(canceled), JobCanceled)
    assert [seed for seed, _ in runner.opened] == [1]


def test_an_engine_that_closes_leaves_no_prompt_behind():
    runner, before = ReadingRunner(), threading.active_count()
    engine = beside(runner)
    usually(engine, 1.0)
    futures = [engine.add(a_job(f"j{seed}", seed=seed), None) for seed in (2, 3)]
    second = engine._inbox[1]
    engine.close()
    assert second.encoded.cancelled() and all(each.done() for each in futures)
    runner.may_go_on.set()
    for _ in range(200):
        if threading.active_count() <= before:
            return
        threading.Event().wait(0.01)
    raise AssertionError("a thread is left")


def test_a_prompt_of_a_model_that_encoded_none_is_waited_for():
    runner = ReadingRunner()
    engine = beside(runner)
    engine.add(a_job("short", seed=2, steps=2), None)
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == [1, 2] and runner.opened[-1] == (2, [2])


def test_the_longer_the_step_the_longer_a_prompt_that_is_waited_for():
    runner = ReadingRunner()
    engine = beside(runner)
    engine._batch.next_batch.step_s["tiny"] = 2.0
    usually(engine, 2 * SHARE_WAITED)
    engine.add(a_job("short", seed=2, steps=2), None)
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == [1, 2]


def test_how_long_prompts_take_is_measured_and_smoothed_by_a_fifth():
    runner = ReadingRunner()
    engine = beside(runner)
    engine.add(a_job("short", seed=2, steps=2), None)
    [ticket] = engine._inbox
    threading.Timer(0.02, runner.may_go_on.set).start()
    wait([ticket.encoded], LIMIT_S)
    assert 0.001 < engine._prompts._usual_s["tiny"] < LIMIT_S
    usually(engine, 1.0)
    engine._prompts._note("tiny", 2.0)
    assert engine._prompts._usual_s["tiny"] == pytest.approx(1.2)
    engine.close()


def test_nothing_is_encoded_for_an_engine_that_has_closed():
    runner, prompts = ReadingRunner(), PromptEncoding()
    ticket = Ticket(job=a_job("a"), runner=runner, due_at=0.0, deadline=None)
    prompts.close()
    prompts.begin(ticket)
    assert ticket.encoded is None
