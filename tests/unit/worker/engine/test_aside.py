"""Images are opened and decoded in slices, between the steps of others."""

from dataclasses import fields

import numpy as np
import pytest
from torch import nn, ones

from core.errors import JobCanceled, JobExpired
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.fake import FakeRunner, FakeSample, value_of
from worker.diffusion.slices import give_way_in
from worker.engine.running_batch import MOST_SLICES, SHARE_ASIDE

LAYERS = 4


class LayeredSample(FakeSample):
    """Says when it is let go."""

    closed: list[int]

    def close(self):
        self.closed.append(self.seed)


class LayeredRunner(FakeRunner):
    """Opens and decodes in layers, each of which may give way."""

    def __init__(self):
        super().__init__()
        self.layer, self.now, self.closed = nn.Identity(), [], []
        give_way_in(self.layer)

    def open(self, request, seed, inputs=None):
        self._layers(f"open {seed}")
        sample = super().open(request, seed, inputs)
        layered = LayeredSample(
            **{each.name: getattr(sample, each.name) for each in fields(sample)}
        )
        layered.closed = self.closed
        return layered

    def decode(self, sample):
        self._layers(f"decode {sample.seed}")
        return super().decode(sample)

    def _layers(self, doing):
        for _ in range(LAYERS):
            self.now.append(doing)
            self.layer(ones(1))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_others_step_while_one_is_opened_and_while_one_is_decoded():
    runner = LayeredRunner()
    engine = an_engine(runner)
    long = engine.add(a_job("long", seed=1, steps=40), None)
    engine.step()
    engine._batch.activities.usual_s.clear()
    short = engine.add(a_job("short", seed=2, steps=2, at=1.0), None)
    run_out(engine)
    first = next(i for i, seeds in enumerate(runner.batches) if 2 in seeds)
    last = max(i for i, seeds in enumerate(runner.batches) if 2 in seeds)
    assert first >= 2, "the other steps while it is opened"
    assert last < len(runner.batches) - 1
    assert np.all(short.result(0).images[0] == value_of(2, 2))
    assert np.all(long.result(0).images[0] == value_of(1, 40))


def test_a_call_is_spread_over_a_few_steps_however_long_it_takes():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=100), None)
    engine.step()
    engine._batch.activities.usual_s["preparing", "tiny"] = 1e6
    engine.add(a_job("b", seed=2, steps=2), None)
    engine.step()
    assert sorted(runner.batches[-1]) == [1, 2]


def test_a_slice_is_a_share_of_the_step_for_each_call_that_waits():
    runner = LayeredRunner()
    engine = an_engine(runner, max_slots=4)
    engine.add(a_job("long", seed=1, steps=100), None)
    engine.step()
    batch = engine._batch
    batch.next_batch.step_s["tiny"] = 1.0
    assert batch._slice_s() == 0.0, "nothing waits"
    for seed in (2, 3, 4, 5):
        engine.add(a_job(f"j{seed}", seed=seed, steps=9), None)
    batch.receive(engine._arrived())
    batch.activities.usual_s.clear()
    assert batch._slice_s() == pytest.approx(3 * SHARE_ASIDE), "as many as there are slots"
    batch._begin_opening()
    assert batch._slice_s() == pytest.approx(3 * SHARE_ASIDE)
    batch.activities.usual_s["preparing", "tiny"] = 10.0
    assert batch._slice_s() == pytest.approx(3 * 10.0 / MOST_SLICES)
    batch._begin_opening()
    assert len(batch.opening) == 1, "one at a time"


def test_what_a_slice_was_too_long_the_next_is_shorter():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=100), None)
    engine.step()
    batch = engine._batch
    batch.activities.usual_s.clear()
    batch.next_batch.step_s["tiny"] = 1e-9
    engine.add(a_job("b", seed=2, steps=9), None)
    batch.receive(engine._arrived())
    batch.work_aside()
    assert 0.0 < batch._overrun_s < 1.0
    while batch.opening:
        batch.work_aside()
    assert batch._overrun_s == 0.0


def test_with_nobody_to_wait_for_it_an_image_is_opened_at_once():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=1, steps=1), None)
    engine.step()
    assert runner.now == ["open 1"] * LAYERS + ["decode 1"] * LAYERS


def test_images_are_opened_one_after_the_other_by_when_they_are_due():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=9, steps=60), None)
    engine.step()
    for seed in (3, 1, 2):
        engine.add(a_job(f"j{seed}", seed=seed, steps=2, at=float(seed)), None)
    run_out(engine)
    opened = list(dict.fromkeys(doing for doing in runner.now if doing.startswith("open")))
    assert opened == ["open 9", "open 1", "open 2", "open 3"]


def test_a_job_canceled_while_it_is_opened_never_steps():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=20), None)
    engine.step()
    engine._batch.activities.usual_s.clear()
    canceled = engine.add(a_job("canceled", seed=2, steps=5), None)
    engine.step()
    assert runner.now[-1] == "open 2" and not engine.stats().running > 1
    engine.stop("canceled", JobCanceled("asked to"))
    run_out(engine)
    assert isinstance(error_of(canceled), JobCanceled)
    assert 2 in runner.closed and not any(2 in seeds for seeds in runner.batches)


def test_a_deadline_that_passes_while_an_image_is_decoded_ends_its_job_once():
    runner, clock = LayeredRunner(), Clock()
    engine = an_engine(runner, clock=clock)
    engine.add(a_job("long", seed=1, steps=20), None)
    engine.step()
    late = engine.add(a_job("late", seed=2, steps=1), 110.0)
    while "decode 2" not in runner.now:
        engine.step()
    clock.now = 111.0
    run_out(engine)
    assert isinstance(error_of(late), JobExpired)


def test_a_model_is_not_closed_while_it_decodes():
    runner = LayeredRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", seed=1, steps=3), None)
    other = FakeRunner("other")
    engine.attach(other)
    engine.add(a_job("b", model="other", seed=2, steps=50), None)
    gone = engine.detach("tiny")
    while "decode 1" not in runner.now:
        engine.step()
        assert not runner.is_closed
    run_out(engine)
    assert future.done() and gone.done() and runner.is_closed


def test_what_is_opened_when_the_engine_closes_is_let_go():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("long", seed=1, steps=20), None)
    engine.step()
    opened = engine.add(a_job("b", seed=2), None)
    engine.step()
    engine.close()
    assert opened.done() and not engine._batch.held
