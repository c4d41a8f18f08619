"""Images are decoded in slices, between the steps of others."""

import time
from dataclasses import fields
from functools import partial
from itertools import count

import numpy as np
import pytest
from torch import nn, ones

from core.errors import JobExpired
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.engine.test_running_batch import a_ticket, begun
from tests.unit.worker.engine.test_stats import WORK_S, Heard, an_activity, work
from tests.unit.worker.fake import FakeRunner, FakeSample, value_of
from worker.diffusion.runner import EditInputs
from worker.diffusion.slices import give_way_in
from worker.engine.aside import Parts
from worker.engine.batch import MOST_SLICES, SHARE_ASIDE
from worker.engine.stats import Activities

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


def test_the_time_of_an_activity_in_parts_is_that_of_its_parts():
    heard, activity = Heard(), an_activity()
    activities = Activities(heard)
    parts = Parts(activities, activity)
    began, between_s = time.perf_counter(), 0.0
    for _ in range(2):
        with parts.part():
            assert activities.now is activity
            work()
        paused_at = time.perf_counter()
        assert activities.now is None and not heard
        work()
        between_s += time.perf_counter() - paused_at
    parts.end()
    [(ended, seconds)] = heard
    assert ended is activity and activities.decoding_s == {"m": seconds}
    assert 2 * WORK_S <= seconds <= time.perf_counter() - began - between_s


def ticks():
    """A clock by which a step takes next to nothing, and so does a slice, whatever it takes."""
    return partial(next, count(0.0, 1e-6))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_with_nobody_to_wait_for_it_an_image_is_opened_at_once():
    runner = LayeredRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=1, steps=1), None)
    engine.step()
    assert runner.now == ["open 1"] * LAYERS + ["decode 1"] * LAYERS


def test_a_deadline_that_passes_while_an_image_is_decoded_ends_its_job_once():
    runner, clock = LayeredRunner(), Clock()
    engine = an_engine(runner, clock=clock, stopwatch=ticks())
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
    engine = an_engine(runner, stopwatch=ticks())
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


def beside(runner, *, steps=60):
    """An engine with a long image on its way, and no idea of how long a decoder takes."""
    engine = an_engine(runner, stopwatch=ticks())
    engine.add(a_job("long", seed=1, steps=steps), None)
    engine.step()
    return engine


def test_who_comes_late_joins_at_the_next_step_and_is_decoded_between_others():
    runner = LayeredRunner()
    engine = beside(runner)
    short = engine.add(a_job("short", seed=2, steps=2), None)
    engine.step()
    assert sorted(runner.batches[-1]) == [1, 2]
    engine.step()
    before = len(runner.batches)
    while not short.done():
        engine.step()
    assert len(runner.batches) - before >= LAYERS - 1, "the other steps while it is decoded"
    assert np.all(short.result(0).images[0] == value_of(2, 2))


def test_what_decoding_alone_takes_says_how_long_slices_are():
    class Slow(LayeredRunner):
        def decode(self, sample):
            work()
            return super().decode(sample)

    engine, began = an_engine(Slow()), time.perf_counter()
    engine.add(a_job("alone", seed=1, steps=1), None)
    run_out(engine)
    took_s = engine._batch.activities.decoding_s["tiny"]
    assert WORK_S <= took_s <= time.perf_counter() - began


def test_a_decoder_is_spread_over_a_few_steps_however_long_it_takes():
    runner = LayeredRunner()
    engine = beside(runner)
    engine._batch.activities.decoding_s["tiny"] = 1e6
    short = engine.add(a_job("short", seed=2, steps=1), None)
    engine.step()
    engine.step()
    assert short.done()


@pytest.mark.parametrize("is_edit", [True, False])
def test_only_an_edit_is_opened_with_no_decoder_at_work(is_edit):
    runner = LayeredRunner()
    engine = beside(runner)
    first = engine.add(a_job("first", seed=2, steps=1), None)
    engine.step()
    engine.step()
    assert runner.now[-1] == "decode 2" and not first.done()
    engine.add(a_job("second", seed=3, steps=1), None, an_edit() if is_edit else None)
    engine.step()
    assert "open 3" in runner.now and first.done() is is_edit


def an_edit():
    picture = np.zeros((32, 32, 3), np.uint8)
    return EditInputs(template=picture, mask=picture[..., 0], strength=1.0)


def test_a_slice_is_a_share_of_the_step_for_each_image_that_waits():
    batch = beside(LayeredRunner())._batch
    assert batch._aside.slice_s(1.0) == 0.0, "nothing waits"
    [slot] = batch.running
    for waiting in (1, 2):
        batch._decode(slot)
        assert batch._aside.slice_s(1.0) == pytest.approx(waiting * SHARE_ASIDE)
    batch.activities.decoding_s["tiny"] = 10.0
    assert batch._aside.slice_s(1.0) == pytest.approx(2 * 10.0 / MOST_SLICES)


def test_what_a_slice_was_too_long_the_next_is_shorter():
    batch = beside(LayeredRunner())._batch
    batch.next_batch.step_s["tiny"] = 1e-9
    batch._decode(batch.running[0])
    batch.work_aside()
    assert 0.0 < batch._aside._overrun_s < 1.0
    while batch.leaving:
        batch.work_aside()
    assert batch._aside._overrun_s == 0.0


def test_what_is_decoded_when_the_engine_closes_is_let_go():
    runner = LayeredRunner()
    engine = beside(runner)
    short = engine.add(a_job("short", seed=2, steps=1), None)
    engine.step()
    engine.step()
    assert not short.done()
    engine.close()
    assert short.done() and not engine._batch.held


def beside_two(runner):
    """A batch of one image on its way, beside which two are decoded."""
    engine = an_engine(runner)
    for seed in (1, 2, 3):
        engine.add(a_job(f"j{seed}", seed=seed, steps=60), None)
    engine.step()
    batch = engine._batch
    assert batch._aside._overrun_s == 0.0
    slots = [slot for slot in batch.running if slot.index == 0 and slot.ticket.job.id != "j1"]
    for slot in slots:
        batch.running.remove(slot)
        batch._decode(slot)
    return batch


def test_in_a_long_slice_one_is_decoded_after_the_other():
    batch = beside_two(LayeredRunner())
    batch.next_batch.step_s["tiny"] = 1e6
    batch.work_aside()
    assert not batch.leaving


def test_a_slice_that_ends_early_lends_the_next_one_nothing():
    runner = LayeredRunner()
    batch = beside_two(runner)
    batch.next_batch.step_s["tiny"] = 1.0
    batch._aside._slices._at_work()._took[runner.layer] = 1e9
    batch.work_aside()
    assert len(batch.leaving) == 2 and batch._aside._overrun_s == 0.0


@pytest.mark.parametrize(("step_s", "is_decoded"), [(1e-9, False), (100.0, True)])
def test_a_decoder_goes_on_beside_what_is_opened_unless_that_takes_as_long(
    step_s: float, is_decoded: bool
) -> None:
    runner = LayeredRunner()
    batch = beside_two(runner)
    batch.next_batch.step_s["tiny"] = step_s
    begun(batch, a_ticket("late", runner=runner, seed=4))
    batch.work_aside()
    assert ("decode 2" in runner.now) is is_decoded
    batch.work_aside()
    assert "decode 2" in runner.now, "nothing is opened any more"


@pytest.mark.parametrize("is_opened", [True, False])
def test_what_was_opened_comes_off_a_slice_and_what_the_last_one_was_too_long(
    is_opened: bool,
) -> None:
    batch = beside_two(LayeredRunner())
    batch.next_batch.step_s["tiny"] = 100.0
    taken_s = 2 * 100.0 * SHARE_ASIDE - 1e-6
    if is_opened:
        batch._opening_s = taken_s
    else:
        batch._aside._overrun_s = taken_s
    batch.work_aside()
    assert len(batch.leaving) == 2, "next to nothing is left of it"


def test_what_a_slice_was_too_long_is_forgotten_once_nobody_steps():
    batch = beside_two(LayeredRunner())
    batch._aside._overrun_s = 5.0
    batch._finish_aside()
    assert batch._aside._overrun_s == 0.0 and not batch.leaving


def test_a_slice_follows_the_decoder_that_takes_longest():
    batch = beside_two(LayeredRunner())
    batch.activities.decoding_s["tiny"] = 1.0
    batch.leaving[0].ticket.runner = FakeRunner("large")
    batch.activities.decoding_s["large"] = 10.0
    assert batch._aside.slice_s(0.0) == pytest.approx(2 * 10.0 / MOST_SLICES)


def test_what_is_decoded_is_timed_as_one_activity():
    heard = []
    batch = beside_two(LayeredRunner())
    batch.activities.on_done = lambda activity, seconds: heard.append(activity.doing)
    batch._finish_aside()
    assert heard == ["decoding"] * 2


def test_a_batch_that_is_cleared_decodes_nothing_more():
    batch = beside_two(LayeredRunner())
    batch.clear()
    assert not batch._aside._slices and not batch.held
