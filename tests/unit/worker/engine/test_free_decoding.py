"""Images are decoded in a thread while others step, where these take one core of several."""

import threading
import time

import numpy as np
import pytest

from core.errors import JobStopped
from tests.jobs import a_job
from tests.unit.worker.engine.test_aside import an_edit
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.fake import FakeRunner, value_of
from worker.diffusion.runner import ControlImages, WordInputs
from worker.engine.aside import MOST_STEPS, THREAD
from worker.engine.watchdog import frames_of

WAIT_S = 30.0


class GatedRunner(FakeRunner):
    """Decodes in whatever thread, once it may."""

    decodes_freely = True

    def __init__(self):
        super().__init__()
        self.may_decode, self.decoding = threading.Event(), threading.Event()
        self.threads, self.trimmed_by, self.opened = [], [], []

    def open(self, request, seed, inputs=None):
        self.opened.append(seed)
        return super().open(request, seed, inputs)

    def decode(self, sample):
        self.threads.append(threading.current_thread().name)
        self.decoding.set()
        assert self.may_decode.wait(WAIT_S)
        return super().decode(sample)

    def trim(self):
        self.trimmed_by.append(threading.current_thread())
        super().trim()


def beside(runner, *seeds, prompt="a prompt"):
    """An engine with a long image on its way, whose short jobs have taken their one step."""
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=300), None)
    engine.step()
    futures = [
        engine.add(a_job(f"j{seed}", seed=seed, steps=1, prompt=prompt), None) for seed in seeds
    ]
    engine.step()
    return engine, futures


def step_until(engine, is_so):
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until
        engine.step()


def test_others_step_while_an_image_is_decoded_by_a_thread():
    runner = GatedRunner()
    engine, [short] = beside(runner, 2)
    assert runner.decoding.wait(WAIT_S) and runner.threads[0].startswith(THREAD)
    for _ in range(3):
        engine.step()
    assert runner.batches[-3:] == [[1]] * 3 and not short.done()
    runner.may_decode.set()
    step_until(engine, short.done)
    assert np.all(short.result().images[0] == value_of(2, 1))


def test_a_decoded_image_is_handed_over_before_the_next_step():
    runner = GatedRunner()
    engine, [short] = beside(runner, 2)
    runner.may_decode.set()
    engine._batch._free._begun[0].made.result(WAIT_S)
    before = len(runner.batches)
    engine.step()
    assert short.done() and len(runner.batches) == before + 1


def test_images_are_decoded_one_after_the_other_and_each_is_the_right_one():
    runner = GatedRunner()
    engine, futures = beside(runner, 2, 3, 4)
    assert len(engine._batch.leaving) == 3
    runner.may_decode.set()
    step_until(engine, lambda: all(each.done() for each in futures))
    for seed, future in zip((2, 3, 4), futures, strict=True):
        assert np.all(future.result().images[0] == value_of(seed, 1))
    assert len(set(runner.threads)) == 1 and not engine._batch.leaving


def test_others_wait_for_an_image_after_some_steps_and_are_seen_to():
    runner = GatedRunner()
    engine, [short] = beside(runner, 2)
    assert runner.decoding.wait(WAIT_S)
    seen, before = [], len(runner.batches)

    def let_go():
        while getattr(engine.activity, "doing", None) != "decoding":
            time.sleep(1e-3)
        seen.append((len(runner.batches) - before, engine.activity.jobs))
        runner.may_decode.set()

    helper = threading.Thread(target=let_go, daemon=True)
    helper.start()
    step_until(engine, short.done)
    helper.join(WAIT_S)
    assert seen == [(MOST_STEPS, ("j2",))]


def test_where_a_decoder_hangs_can_be_told():
    runner = GatedRunner()
    beside(runner, 2)
    assert runner.decoding.wait(WAIT_S)
    assert any("in decode" in line for line in frames_of("engine", THREAD))
    assert not any("in decode" in line for line in frames_of("engine"))
    runner.may_decode.set()


def test_each_image_has_its_own_steps_before_others_wait():
    runner = GatedRunner()
    engine, futures = beside(runner, 2, 3)
    runner.may_decode.set()
    for each in engine._batch._free._begun:
        each.made.result(WAIT_S)
    engine._batch._free._missed = MOST_STEPS
    engine.step()
    assert all(each.done() for each in futures) and engine._batch._free._missed == 0


def test_who_is_alone_is_decoded_by_the_engine_itself():
    runner = GatedRunner()
    runner.may_decode.set()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=1, steps=1), None)
    engine.step()
    assert runner.threads == [threading.current_thread().name]


def test_when_nobody_steps_any_more_the_engine_waits_for_the_thread():
    runner = GatedRunner()
    engine = an_engine(runner)
    futures = [engine.add(a_job(f"j{n}", seed=n, steps=n), None) for n in (1, 2)]
    engine.step()
    threading.Timer(0.05, runner.may_decode.set).start()
    engine.step()
    assert all(each.done() for each in futures) and not engine.step()


def test_memory_is_given_back_by_the_engine_alone():
    runner = GatedRunner()
    runner.may_decode.set()
    engine, [short] = beside(runner, 2, prompt="full decode")
    step_until(engine, short.done)
    assert error_of(short) is not None
    assert runner.trimmed_by == [threading.current_thread()]
    assert runner.threads[0].startswith(THREAD) and not runner.threads[-1].startswith(THREAD)


def test_a_decoder_that_fails_fails_its_own_job():
    runner = GatedRunner()
    runner.may_decode.set()
    engine, [short] = beside(runner, 2, prompt="fail decode")
    step_until(engine, short.done)
    assert "a poisoned decode" in str(error_of(short)) and not runner.trimmed_by
    assert [slot.ticket.job.id for slot in engine.running] == ["long"]


CONTROLS = ControlImages(images=(np.zeros((32, 32, 3), np.uint8),))


@pytest.mark.parametrize(
    "brought", [an_edit(), CONTROLS, WordInputs(vectors={}, rest=CONTROLS), None]
)
def test_only_what_brings_pictures_is_opened_with_no_decoder_at_work(brought):
    runner = GatedRunner()
    engine, [first] = beside(runner, 2)
    if brought is not None:
        threading.Timer(0.05, runner.may_decode.set).start()
    engine.add(a_job("second", seed=3, steps=9), None, brought)
    engine.step()
    assert 3 in runner.opened and first.done() is (brought is not None)
    runner.may_decode.set()


def test_a_model_is_not_closed_while_it_decodes():
    runner = GatedRunner()
    engine, [short] = beside(runner, 2)
    engine.attach(FakeRunner("other"))
    gone = engine.detach("tiny")
    engine.stop("long", JobStopped("enough"))
    threading.Timer(0.05, runner.may_decode.set).start()
    run_out(engine)
    assert short.result(0) and gone.done() and runner.is_closed


def test_what_is_decoded_when_the_engine_closes_is_let_go():
    runner = GatedRunner()
    engine, [short, other] = beside(runner, 2, 3)
    assert runner.decoding.wait(WAIT_S)
    engine.close()
    assert isinstance(error_of(short), JobStopped) and isinstance(error_of(other), JobStopped)
    assert not engine._batch.held
    runner.may_decode.set()
    assert len(runner.threads) == 1, "the next one was not begun"


def test_it_is_timed_by_what_its_thread_computes():
    class Sleepy(GatedRunner):
        def decode(self, sample):
            time.sleep(0.2)
            return super().decode(sample)

    runner, heard = Sleepy(), []
    runner.may_decode.set()
    engine, [short] = beside(runner, 2)
    engine._batch.activities.on_done = lambda activity, seconds: heard.append(
        (activity.doing, activity.jobs, seconds)
    )
    step_until(engine, lambda: short.done() or time.sleep(1e-3))
    [(jobs, seconds)] = [(jobs, s) for doing, jobs, s in heard if doing == "decoding"]
    assert jobs == ("j2",) and 0.0 <= seconds < 0.2
    assert engine._batch.activities.decoding_s["tiny"] == seconds


def test_an_image_of_a_job_that_is_stopped_meanwhile_is_dropped():
    runner = GatedRunner()
    engine, [short] = beside(runner, 2)
    engine.stop("j2", JobStopped("enough"))
    engine.step()
    assert isinstance(error_of(short), JobStopped)
    runner.may_decode.set()
    step_until(engine, lambda: not engine._batch.leaving)
    assert [slot.ticket.job.id for slot in engine.running] == ["long"]
