import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import (
    EngineError,
    JobCanceled,
    JobExpired,
    JobHandedOver,
    JobStopped,
    OutOfMemory,
)
from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner, value_of
from worker.engine.batch import NextBatch
from worker.engine.engine import Engine


def an_engine(*runners, max_slots=8, max_rows=16, clock=lambda: 100.0, **options):
    engine = Engine(max_slots=max_slots, max_rows=max_rows, slo_s=60, clock=clock, **options)
    for runner in runners or (FakeRunner(),):
        engine.attach(runner)
    return engine


def run_out(engine):
    for _ in range(1000):
        if not engine.step():
            return
    raise AssertionError("the engine never came to rest")


def error_of(future):
    assert future.done()
    return future.exception()


def test_a_job_is_made_in_as_many_steps_as_it_asks_for():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", steps=3, seed=5), None)
    run_out(engine)
    made = future.result(0)
    assert made.job_id == "a" and made.seeds == (5,)
    assert np.all(made.images[0] == value_of(5, 3))
    assert runner.batches == [[5]] * 3
    assert made.admitted_at == made.denoised_at == 100.0


def test_a_job_that_arrives_late_joins_at_the_next_step():
    runner = FakeRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", steps=3, seed=1), None)
    engine.step()
    engine.add(a_job("b", steps=3, seed=2, at=1.0), None)
    run_out(engine)
    assert runner.batches == [[1], [1, 2], [1, 2], [2]]


def test_who_shares_a_step_shares_its_time():
    seconds = iter(range(100))
    engine = Engine(max_slots=8, max_rows=16, slo_s=60, stopwatch=lambda: float(next(seconds)))
    engine.attach(FakeRunner())
    alone = engine.add(a_job("a", steps=3, seed=1), None)
    engine.step()
    beside = engine.add(a_job("b", steps=2, seed=2, at=1.0), None)
    engine.step()
    assert engine.progress()["a"].device_s == 1.5
    run_out(engine)
    assert (alone.result(0).device_s, beside.result(0).device_s) == (2.0, 1.0)


@pytest.mark.parametrize(("fit", "sharing"), [(3, [3, 1]), (1, [1] * 4), (0, [1] * 4), (9, [4])])
def test_no_more_images_share_a_step_than_fit_in_memory_but_one_always_does(fit, sharing):
    runner = FakeRunner()
    choosing = partial(NextBatch, fits=lambda slot: fit)
    engine = Engine(max_slots=8, max_rows=16, slo_s=60, next_batch=choosing)
    engine.attach(runner)
    future = engine.add(a_job("a", steps=1, n=4), None)
    run_out(engine)
    assert future.result(0)
    assert [len(batch) for batch in runner.batches] == sharing


def test_whoever_is_alone_in_its_group_is_one_of_those_that_fit():
    runner = FakeRunner()
    choosing = partial(NextBatch, fits=lambda slot: 3)
    engine = Engine(max_slots=8, max_rows=16, slo_s=60, next_batch=choosing)
    engine.attach(runner)
    both = [engine.add(a_job(f"j{side}", width=side, steps=1), None) for side in (64, 128)]
    run_out(engine)
    assert all(each.result(0) for each in both)
    assert [len(batch) for batch in runner.batches] == [1, 1]


def test_n_images_take_n_slots_with_following_seeds():
    runner = FakeRunner()
    engine = an_engine(runner, max_slots=2)
    future = engine.add(a_job("a", steps=2, seed=7, n=3), None)
    run_out(engine)
    made = future.result(0)
    assert made.seeds == (7, 8, 9)
    assert [image[0, 0, 0] for image in made.images] == [value_of(s, 2) for s in (7, 8, 9)]
    assert max(len(batch) for batch in runner.batches) == 2


def test_seeds_wrap_around_at_64_bits():
    engine = an_engine()
    future = engine.add(a_job("a", steps=1, seed=2**64 - 1, n=2), None)
    run_out(engine)
    assert future.result(0).seeds == (2**64 - 1, 0)


def test_guidance_takes_two_rows_of_the_cap():
    runner = FakeRunner()
    engine = an_engine(runner, max_rows=4)
    for i in range(3):
        engine.add(a_job(f"g{i}", seed=i, steps=1, guidance=5.0), None)
    engine.step()
    assert runner.batches == [[0, 1]]


def test_whoever_is_due_first_goes_first_and_groups_never_mix():
    runner = FakeRunner()
    engine = an_engine(runner)
    engine.add(a_job("slow", seed=1, steps=2, width=32, at=0.0), None)
    for name, seed, due_at in (("wide", 2, 130.0), ("soon", 3, 110.0)):
        job = a_job(name, seed=seed, steps=2, width=64, at=float(seed))
        engine.add(replace(job, deadline_at=due_at), due_at)
    run_out(engine)
    assert runner.batches == [[1], [1], [3, 2], [3, 2]]


def test_an_urgent_job_is_admitted_before_an_earlier_one():
    runner = FakeRunner()
    engine = an_engine(runner, max_slots=1)
    engine.add(a_job("first", seed=1, steps=2), None)
    engine.step()
    engine.add(a_job("patient", seed=2, steps=1, at=90.0), None)
    engine.add(a_job("urgent", seed=3, steps=1), 101.0)
    run_out(engine)
    assert [b[0] for b in runner.batches] == [1, 1, 3, 2]


def test_a_canceled_job_leaves_within_one_step():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", seed=1, steps=9), None)
    other = engine.add(a_job("b", seed=2, steps=3), None)
    engine.step()
    engine.stop("a", JobCanceled("asked to"))
    engine.step()
    assert isinstance(error_of(future), JobCanceled)
    run_out(engine)
    assert other.result(0).images[0][0, 0, 0] == value_of(2, 3)
    assert runner.batches == [[1, 2], [2], [2]]


def test_a_job_canceled_during_its_last_step_is_not_decoded():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", steps=1, prompt="fail decode"), None)
    runner.before_forward = lambda: engine.stop("a", JobCanceled("asked to"))
    run_out(engine)
    assert isinstance(error_of(future), JobCanceled)


def test_a_waiting_job_can_be_canceled():
    engine = an_engine(max_slots=1)
    engine.add(a_job("a", steps=3), None)
    waiting = engine.add(a_job("b", steps=3, n=2), None)
    engine.step()
    engine.stop("b", JobCanceled("asked to"))
    engine.step()
    assert isinstance(error_of(waiting), JobCanceled)
    assert engine.stats().waiting == 0


def test_whoever_stops_a_job_hears_whether_it_is_here() -> None:
    engine = an_engine()
    engine.add(a_job("a"), None)
    said = [engine.stop(name, JobCanceled("asked to")) for name in ("other", "a", "a")]
    assert said == [False, True, False]


def test_nobody_cancels_a_job_by_its_future():
    """Its images would have nowhere to go: whoever wants it stopped says so to the engine."""
    engine = an_engine()
    future = engine.add(a_job("a", steps=2), None)
    assert not future.cancel()
    run_out(engine)
    assert future.result(0).job_id == "a"


def test_a_stopped_job_may_come_again_at_once_under_its_id():
    engine = an_engine()
    first = engine.add(a_job("a", steps=3), None)
    engine.step()
    engine.stop("a", JobStopped("its lease is lost"))
    second = engine.add(a_job("a", steps=2), None)
    run_out(engine)
    assert isinstance(error_of(first), JobStopped)
    assert second.result(0).job_id == "a"


def test_the_same_job_twice_is_refused_and_the_first_goes_on():
    engine = an_engine()
    first = engine.add(a_job("a"), None)
    assert isinstance(error_of(engine.add(a_job("a"), None)), EngineError)
    run_out(engine)
    assert first.result(0).job_id == "a"


def test_a_job_past_its_deadline_leaves_within_one_step():
    now = [100.0]
    engine = an_engine(max_slots=1, clock=lambda: now[0])
    running = engine.add(a_job("a", steps=9), 105.0)
    waiting = engine.add(a_job("b", steps=9), 106.0)
    patient = engine.add(a_job("c", steps=2), None)
    engine.step()
    now[0] = 107.0
    engine.step()
    assert isinstance(error_of(running), JobExpired)
    assert isinstance(error_of(waiting), JobExpired)
    run_out(engine)
    assert patient.result(0).job_id == "c"


@pytest.mark.parametrize("where", ["open", "forward", "advance", "decode"])
def test_an_error_in_one_request_fails_that_one_alone(where):
    runner = FakeRunner()
    engine = an_engine(runner)
    good = [engine.add(a_job(f"g{i}", seed=i, steps=3), None) for i in range(5)]
    bad = engine.add(a_job("bad", seed=9, steps=3, prompt=f"fail {where}"), None)
    run_out(engine)
    assert isinstance(error_of(bad), EngineError)
    assert f"a poisoned {where}" in str(error_of(bad))
    for seed, future in enumerate(good):
        assert future.result(0).images[0][0, 0, 0] == value_of(seed, 3)


def test_a_failed_image_takes_the_other_images_of_its_job_along():
    engine = an_engine()
    future = engine.add(a_job("a", n=3, prompt="fail decode"), None)
    run_out(engine)
    assert isinstance(error_of(future), EngineError)
    assert engine.stats().running == 0


def test_running_out_of_memory_halves_the_batch_and_goes_on():
    runner = FakeRunner(fits_rows=4)
    engine = an_engine(runner)
    futures = [engine.add(a_job(f"j{i}", seed=i, steps=2), None) for i in range(8)]
    run_out(engine)
    assert [f.result(0).images[0][0, 0, 0] for f in futures] == [value_of(i, 2) for i in range(8)]
    assert max(len(batch) for batch in runner.batches) == 2
    assert runner.batches[:4] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert runner.trims == 3


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
        ),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_every_way_to_run_out_of_memory_is_known(error):
    runner = FakeRunner(fits_rows=2)
    runner.memory_error = error
    engine = an_engine(runner)
    futures = [engine.add(a_job(f"j{i}", steps=1), None) for i in range(2)]
    run_out(engine)
    assert all(future.exception(0) is None for future in futures)


def test_one_image_that_does_not_fit_alone_fails_with_out_of_memory():
    runner = FakeRunner(fits_rows=1)
    engine = an_engine(runner)
    large = engine.add(a_job("large", guidance=5.0), None)
    small = engine.add(a_job("small", guidance=1.0), None)
    run_out(engine)
    assert isinstance(error_of(large), OutOfMemory)
    assert small.result(0).job_id == "small"


def test_a_job_that_cannot_be_opened_for_lack_of_memory_waits_for_room():
    runner = FakeRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", steps=3), None)
    engine.step()
    full = engine.add(a_job("b", steps=1, prompt="full open"), None)
    engine.step()
    assert not full.done()
    run_out(engine)
    assert isinstance(error_of(full), OutOfMemory)


def test_a_job_that_found_no_room_is_still_the_first_to_be_admitted_once_there_is_some():
    runner = RoomFor(1)
    engine = an_engine(runner)
    for seed in (1, 2, 3):
        engine.add(a_job(f"j{seed}", seed=seed, steps=1, at=float(seed)), None)
    run_out(engine)
    assert runner.batches == [[1], [2], [3]]


class RoomFor(FakeRunner):
    """Has memory for so many images at a time."""

    def __init__(self, images):
        super().__init__()
        self.images, self.opened = images, 0

    def open(self, request, seed, inputs=None):
        if self.opened == self.images:
            raise self.memory_error
        self.opened += 1
        return super().open(request, seed, inputs)

    def decode(self, sample):
        self.opened -= 1
        return super().decode(sample)


def test_a_decoder_out_of_memory_is_tried_once_more():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", prompt="full decode"), None)
    run_out(engine)
    assert isinstance(error_of(future), OutOfMemory)
    assert runner.trims == 1


def test_a_job_for_a_model_that_is_not_resident_is_left_to_others():
    engine = an_engine()
    error = error_of(engine.add(a_job("a", model="other"), None))
    assert isinstance(error, JobHandedOver) and "other" in str(error)


def test_two_resident_models_take_turns_by_due_time():
    one, two = FakeRunner("tiny"), FakeRunner("other")
    engine = an_engine(one, two)
    first = engine.add(a_job("a", seed=1, at=0.0, steps=2), None)
    second = engine.add(a_job("b", seed=2, at=1.0, steps=2, model="other"), None)
    run_out(engine)
    assert first.result(0).job_id == "a" and second.result(0).job_id == "b"
    assert one.batches == [[1], [1]] and two.batches == [[2], [2]]
    assert set(engine.stats().step_s) == {"tiny", "other"}


def test_a_detached_model_is_closed_once_its_jobs_are_made():
    runner = FakeRunner()
    engine = an_engine(runner, max_slots=1)
    futures = [engine.add(a_job(f"j{i}", steps=2), None) for i in range(2)]
    engine.step()
    gone = engine.detach("tiny")
    refused = engine.add(a_job("late"), None)
    engine.step()
    assert isinstance(error_of(refused), JobHandedOver)
    assert not gone.done() and not runner.is_closed
    run_out(engine)
    assert gone.done() and runner.is_closed
    assert all(future.exception(0) is None for future in futures)


def test_a_model_can_be_replaced_while_its_old_jobs_finish():
    old, new = FakeRunner(), FakeRunner()
    engine = an_engine(old)
    engine.add(a_job("a", seed=1, steps=3), None)
    engine.step()
    gone = engine.detach("tiny")
    engine.attach(new)
    engine.add(a_job("b", seed=2, steps=1), None)
    run_out(engine)
    assert gone.done() and old.is_closed and not new.is_closed
    assert old.batches == [[1]] * 3 and new.batches == [[2]]


def test_progress_counts_the_steps_that_the_client_asked_for():
    engine = an_engine()
    engine.add(a_job("a", steps=4, n=2), None)
    engine.add(a_job("b", steps=2, model="tiny"), None)
    engine.step()
    progress = engine.progress()
    assert (progress["a"].step, progress["a"].steps) == (1, 4)
    assert (progress["b"].step, progress["b"].steps) == (1, 2)
    run_out(engine)
    assert engine.progress() == {}


def test_stats_tell_running_from_waiting():
    engine = an_engine(max_slots=2)
    for i in range(3):
        engine.add(a_job(f"j{i}", n=2), None)
    assert engine.stats().waiting == 6
    engine.step()
    stats = engine.stats()
    assert (stats.running, stats.waiting) == (2, 4)
    assert stats.is_alive


@pytest.fixture
def running_engine():
    engine = an_engine(clock=lambda: 100.0)
    engine.start()
    yield engine
    engine.close()


def test_an_idle_engine_wakes_for_a_job(running_engine):
    for i in range(3):
        assert running_engine.add(a_job(f"j{i}"), None).result(60).job_id == f"j{i}"


def test_an_idle_engine_wakes_to_let_a_model_go(running_engine):
    assert running_engine.detach("tiny").result(60) is None


def test_an_engine_without_work_takes_no_step() -> None:
    class Idle(Engine):
        def step(self) -> bool:
            raise AssertionError("there is nothing to do")

    engine = Idle(max_slots=8, max_rows=16, slo_s=60)
    threading.Timer(0.05, engine.close).start()
    engine.run()
    assert isinstance(error_of(engine.add(a_job("late"), None)), JobStopped)


def test_closing_resolves_what_is_not_made():
    runner = FakeRunner()
    engine = an_engine(runner)
    started, go_on = threading.Event(), threading.Event()

    def hold():
        started.set()
        go_on.wait(60)

    runner.before_forward = hold
    engine.start()
    future = engine.add(a_job("a", steps=10**6), None)  # no thread takes them all before the close
    started.wait(60)
    go_on.set()
    engine.close()
    assert isinstance(future.exception(10), JobStopped)
    assert isinstance(error_of(engine.add(a_job("b"), None)), JobStopped)
    assert not engine.stats().is_alive


def test_who_closes_an_engine_that_hangs_is_told_so_in_time():
    begun, go_on = threading.Event(), threading.Event()
    runner = FakeRunner()
    runner.before_forward = lambda: begun.set() or go_on.wait(60)
    engine = an_engine(runner)
    engine.start()
    engine.add(a_job("a"), None)
    begun.wait(60)
    assert not engine.close(0.1)
    go_on.set()
    assert engine.close(60.0)


def test_a_device_that_is_lost_ends_the_engine_and_resolves_every_job():
    class AcceleratorError(RuntimeError):
        pass

    def break_down():
        raise AcceleratorError("device-side assert triggered")

    runner = FakeRunner()
    runner.before_forward = break_down
    engine = an_engine(runner, max_slots=1)
    futures = [engine.add(a_job(f"j{i}"), None) for i in range(3)]
    engine.start()
    for future in futures:
        assert isinstance(future.exception(10), EngineError)
    engine.close()
    assert isinstance(error_of(engine.add(a_job("late"), None)), EngineError)
    assert not engine.stats().is_alive


def test_many_threads_add_and_stop_and_every_future_resolves_once(running_engine):
    futures = {}

    def client(name):
        for i in range(20):
            job_id = f"{name}{i}"
            futures[job_id] = running_engine.add(a_job(job_id, steps=2, n=1 + i % 2), None)
            if i % 3 == 0:
                running_engine.stop(job_id, JobCanceled("asked to"))

    threads = [threading.Thread(target=client, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job_id, future in futures.items():
        error = future.exception(10)
        assert error is None or isinstance(error, JobCanceled)
        assert error is not None or future.result().job_id == job_id
    assert running_engine.progress() == {}


events = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "step", "step", "stop"]),
        st.integers(0, 9),
        st.integers(1, 4),
        st.sampled_from([32, 64]),
        st.sampled_from([1.0, 5.0]),
        st.sampled_from(["ok", "ok", "ok", "fail open", "fail forward", "fail decode"]),
    ),
    max_size=40,
)


@given(events, st.integers(1, 4), st.integers(1, 8), st.sampled_from([None, 2, 4]))
def test_whatever_happens_every_job_ends_once_and_right(script, max_slots, max_rows, fits_rows):
    engine = an_engine(FakeRunner(fits_rows=fits_rows), max_slots=max_slots, max_rows=max_rows)
    futures, stopped = [], set()
    for number, (what, seed, steps, width, guidance, prompt) in enumerate(script):
        if what == "add":
            job = a_job(
                f"j{number}", seed=seed, steps=steps, width=width, guidance=guidance, prompt=prompt
            )
            futures.append((job, engine.add(job, None)))
        elif what == "step":
            engine.step()
        else:
            engine.stop(f"j{seed}", JobCanceled("asked to"))
            stopped.add(f"j{seed}")
    run_out(engine)
    for job, future in futures:
        error = error_of(future)
        if job.request.prompt != "ok":
            assert isinstance(error, EngineError | JobCanceled)
        elif error is None:
            expected = value_of(job.request.seed, job.request.steps)
            assert future.result().images[0][0, 0, 0] == expected
        else:
            assert job.id in stopped


def test_the_pace_of_a_model_that_is_gone_is_not_reported_any_more():
    engine = an_engine()
    engine.add(a_job(), None)
    run_out(engine)
    assert engine.stats().step_s.keys() == {"tiny"}
    engine.detach("tiny")
    engine.step()
    assert not engine.stats().step_s


def test_an_image_without_a_step_to_take_is_decoded_at_once():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", steps=0, seed=5), None)
    other = engine.add(a_job("b", steps=2, seed=6), None)
    assert engine.step() and engine.step()
    assert np.all(future.result(0).images[0] == 5)
    run_out(engine)
    assert other.done() and runner.batches == [[6]] * 2
