"""What the running batch holds, what it lets go of, and what it knows of the time that is left."""

import threading
import time
from dataclasses import fields

import pytest

from core.errors import ControlUnavailable, EngineError, JobStopped, OutOfMemory
from core.levels.approximation import skipping
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.engine.test_stats import WORK_S, Heard, an_activity, work
from tests.unit.worker.fake import FakeRunner
from tests.unit.worker.test_control import WaitingRunner, WaitingSample
from worker.engine.batch import NextBatch
from worker.engine.prompts import PromptEncoding
from worker.engine.running_batch import RunningBatch
from worker.engine.slot import Ticket, Tickets
from worker.engine.stats import Activities


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def a_batch(
    *,
    max_slots=8,
    max_rows=16,
    clock=None,
    on_step=lambda batch, step_s: None,
    on_done=lambda activity, seconds: None,
    on_left=lambda ticket: None,
):
    return RunningBatch(
        Tickets(),
        max_slots=max_slots,
        clock=clock or Clock(),
        on_step=on_step,
        on_left=on_left,
        activities=Activities(on_done),
        stopwatch=time.perf_counter,
        next_batch=NextBatch(max_rows),
        prompts=PromptEncoding(),
    )


def a_ticket(name, *, runner=None, deadline=None, **request):
    job = a_job(name, **request)
    return Ticket(job=job, runner=runner or FakeRunner(), due_at=0.0, deadline=deadline)


def begun(batch, *tickets):
    batch.receive(tickets)
    batch.admit()
    return batch


def test_an_activity_is_seen_while_it_lasts_and_its_time_heard_once():
    heard, activity = Heard(), an_activity()
    batch, began = a_batch(on_done=heard), time.perf_counter()
    with batch._during(activity):
        assert batch.activities.now is activity and not heard
        work()
    assert batch.activities.now is None
    [(ended, seconds)] = heard
    assert ended is activity and WORK_S <= seconds <= time.perf_counter() - began


def test_the_samples_of_a_job_that_fails_are_let_go_and_no_others():
    runner = WaitingRunner()
    engine = an_engine(runner)
    engine.add(a_job("good", seed=1, steps=3), None)
    engine.add(a_job("bad", seed=5, steps=3, n=2, prompt="fail forward"), None)
    engine.step()
    assert sorted(runner.closed) == [5, 6]
    assert [slot.ticket.job.id for slot in engine.running] == ["good"]


def test_what_is_not_made_when_the_engine_closes_lets_go_of_its_samples():
    runner = WaitingRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=3, steps=3), None)
    engine.step()
    engine.close()
    assert runner.closed == [3]


def test_the_images_of_a_job_that_has_ended_do_not_wait_for_slots_any_more():
    batch = a_batch(max_slots=1)
    ticket, other = a_ticket("a", n=3), a_ticket("b")
    begun(batch, ticket)
    ticket.is_closed = True
    batch.receive([ticket])
    assert len(batch.waiting) == 2
    batch.receive([other])
    assert batch.held == {ticket, other}


def test_a_deadline_is_over_after_its_moment_and_not_at_it():
    clock = Clock()
    batch, ticket = a_batch(clock=clock), a_ticket("a", deadline=100.0)
    begun(batch, ticket)
    batch.drop()
    assert not ticket.future.done()
    clock.now = 100.1
    batch.drop()
    assert ticket.future.done()


def test_a_deadline_that_passes_without_hope_says_what_was_hoped_for():
    runner, clock = WaitingRunner(), Clock()
    runner.is_away = True
    engine = an_engine(runner, clock=clock)
    future = engine.add(a_job("a", prompt="waits"), 105.0)
    engine.step()
    runner.is_hopeless, clock.now = True, 106.0
    engine.step()
    assert isinstance(error_of(future), ControlUnavailable)


def test_memory_is_given_back_before_a_job_without_room_is_tried_again():
    runner = FakeRunner()
    engine = an_engine(runner)
    engine.add(a_job("a", steps=2), None)
    engine.add(a_job("b", steps=1, prompt="full open", at=1.0), None)
    engine.step()
    assert runner.trims == 1


def test_an_image_without_room_is_opened_once_more_if_it_is_alone():
    class Fragmented(FakeRunner):
        def open(self, request, seed, inputs=None):
            if not self.trims:
                raise self.memory_error
            return super().open(request, seed, inputs)

    runner = Fragmented()
    engine = an_engine(runner)
    future = engine.add(a_job("a", steps=1), None)
    run_out(engine)
    assert future.exception(0) is None and runner.trims == 1


def test_an_image_that_has_no_room_alone_fails_the_second_time():
    runner = FakeRunner()
    engine = an_engine(runner)
    future = engine.add(a_job("a", prompt="full open"), None)
    engine.step()
    assert isinstance(error_of(future), OutOfMemory) and runner.trims == 1


def test_a_job_is_admitted_with_its_first_image_and_denoised_with_its_last():
    clock, runner = Clock(), FakeRunner()
    engine = an_engine(runner, max_slots=1, clock=clock)
    future = engine.add(a_job("a", steps=2, n=2), None)
    for _ in range(4):
        engine.step()
        clock.now += 1
    made = future.result(0)
    assert (made.admitted_at, made.denoised_at) == (100.0, 103.0)


def test_step_times_and_company_are_smoothed_by_a_fifth():
    seen = []
    batch = a_batch(on_step=lambda slots, step_s: seen.append((len(slots), step_s)))
    runner = FakeRunner()
    begun(batch, a_ticket("a", runner=runner, seed=1, steps=9))
    batch.advance(batch.ready())
    begun(batch, *(a_ticket(f"b{i}", runner=runner, seed=i, steps=9) for i in range(4)))
    batch.advance(batch.ready())
    (one, first_s), (five, second_s) = seen
    assert (one, five) == (1, 5)
    assert 0 <= first_s < 60 and 0 <= second_s < 60
    assert batch.next_batch.step_images == {"tiny": pytest.approx(1 + 0.2 * 4)}
    assert batch.next_batch.step_s == {"tiny": pytest.approx(first_s + 0.2 * (second_s - first_s))}
    batch.next_batch.forget("tiny")
    assert batch.next_batch.step_s == batch.next_batch.step_images == {}


def test_what_is_left_of_a_job_is_its_longest_image_by_turns_of_the_groups():
    batch, runner = a_batch(max_slots=3), FakeRunner()
    short = a_ticket("short", runner=runner, steps=2)
    begun(batch, short, a_ticket("wide", runner=runner, width=64, steps=7))
    assert batch.left_s() == {}, "no step was taken yet"
    batch.next_batch.step_s = {"tiny": 0.5}
    batch.running[0].step = 1
    assert batch.left_s() == {"short": 2 * 1 * 0.5, "wide": 2 * 7 * 0.5}


def test_images_that_do_not_all_share_a_step_take_turns_too():
    batch = begun(a_batch(), a_ticket("a", n=4, steps=5))
    batch.next_batch.step_s, batch.next_batch.step_images = {"tiny": 0.5}, {"tiny": 2.0}
    assert batch.left_s() == {"a": 2 * 5 * 0.5}


def test_of_a_job_with_several_images_the_one_with_most_steps_left_counts():
    batch = a_batch()
    begun(batch, a_ticket("a", n=3, steps=4))
    batch.next_batch.step_s = {"tiny": 0.125}
    for slot, step in zip(batch.running, (3, 0, 2), strict=True):
        slot.step = step
    assert batch.left_s() == {"a": 4 * 0.125}


def test_nobody_knows_when_a_job_is_done_whose_images_are_not_all_here():
    batch = a_batch(max_slots=2)
    begun(batch, a_ticket("a", n=3))
    batch.next_batch.step_s = {"tiny": 1.0}
    assert batch.left_s() == {}


def test_an_error_of_the_engines_own_reaches_the_client_as_it_is():
    class Poisoned(FakeRunner):
        def decode(self, sample):
            raise EngineError("the image is not finite")

    engine = an_engine(Poisoned())
    future = engine.add(a_job("a"), None)
    run_out(engine)
    assert str(error_of(future)) == "the image is not finite"


def test_an_error_says_during_what_and_of_which_kind_it_was():
    engine = an_engine()
    future = engine.add(a_job("a", prompt="fail decode"), None)
    run_out(engine)
    assert str(error_of(future)) == "decoding: ValueError: a poisoned decode"


def test_closing_returns_once_everything_is_resolved():
    runner, started, go_on = FakeRunner(), threading.Event(), threading.Event()
    engine = an_engine(runner)

    def hold():
        started.set()
        go_on.wait(0.2)

    runner.before_forward = hold
    engine.start()
    future = engine.add(a_job("a", steps=50), None)
    started.wait(60)
    engine.close()
    assert isinstance(error_of(future), JobStopped)
    assert engine.running == []


def test_a_job_without_room_stays_first_of_those_who_wait():
    batch, runner = a_batch(), FakeRunner()
    begun(batch, a_ticket("a", runner=runner))
    names = ("b", "c", "d")
    tickets = [a_ticket(n, runner=runner, prompt="full open" if n == "b" else "") for n in names]
    begun(batch, *tickets)
    assert [pending.ticket for pending in batch.waiting] == tickets


def test_a_head_start_is_over_when_an_image_begins():
    class AheadRunner(FakeRunner):
        def open(self, request, seed, inputs=None):
            sample = super().open(request, seed, inputs)
            sample.reached, sample.num_steps = skipping(25), 2
            return sample

    batch, ticket = a_batch(), a_ticket("a", runner=AheadRunner(), steps=4)
    begun(batch, ticket)
    assert (ticket.progress.step, ticket.progress.steps) == (2, 4)


class HopelessSample(WaitingSample):
    """Has no hope of what it waits for if its prompt says so."""

    def waits_for(self):
        if self.prompt == "hopeless":
            raise ControlUnavailable("nobody came")
        return "another process" if self.prompt == "waits" else None


class HopelessRunner(WaitingRunner):
    def open(self, request, seed, inputs=None):
        sample = super().open(request, seed, inputs)
        values = {each.name: getattr(sample, each.name) for each in fields(sample)}
        return HopelessSample(**values)


def test_of_those_beside_one_without_hope_those_step_who_wait_for_nothing():
    batch, runner = a_batch(), HopelessRunner()
    prompts = ("goes", "waits", "hopeless", "goes too")
    tickets = [a_ticket(prompt, runner=runner, prompt=prompt, n=2) for prompt in prompts]
    begun(batch, *tickets)
    ready = batch.ready()
    assert [slot.ticket for slot in ready] == [tickets[0]] * 2 + [tickets[3]] * 2
    assert isinstance(error_of(tickets[2].future), ControlUnavailable)
    assert not tickets[1].future.done()


def test_an_engine_without_jobs_has_nothing_left_to_do_and_no_model_to_wait_for():
    engine = an_engine()
    assert engine.left_s() == {}
    assert engine.detach("unknown").result(0) is None


def test_whoever_waits_for_a_model_to_be_let_go_hears_of_the_end_of_the_engine():
    engine = an_engine()
    engine.add(a_job("a", steps=9), None)
    engine.step()
    gone = engine.detach("tiny")
    assert not gone.done()
    engine.close()
    assert gone.result(0) is None


def test_a_job_leaves_its_slots_with_its_last_image_before_that_is_decoded():
    left = []

    class Runner(FakeRunner):
        def decode(self, sample):
            left.append("decoded")
            return super().decode(sample)

    batch = a_batch(max_slots=2, on_left=lambda ticket: left.append(ticket.job.id))
    runner = Runner()
    begun(batch, a_ticket("a", runner=runner, steps=1, n=3), a_ticket("b", runner=runner, steps=3))

    def step():
        batch.advance(batch.ready())
        batch.retire()
        batch.admit()
        batch.work_aside()

    step()
    assert left.count("a") == 0  # its third image waits for a slot
    while batch.has_work:
        step()
    assert [what for what in left if what != "decoded"] == ["a", "b"]
    assert left.count("decoded") == 4
    assert "decoded" in left[left.index("b") :]
