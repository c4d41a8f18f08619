"""Prompts are encoded beside the steps of others, who wait for none that takes long."""

import threading
import time
from collections import deque
from concurrent.futures import wait
from functools import partial

import numpy as np
import pytest

from core.errors import EngineError, JobCanceled, JobStopped
from core.uploads.ip_adapter import AppliedIpAdapter
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, error_of, run_out
from tests.unit.worker.fake import FakeRunner, value_of
from worker.diffusion.runner import AdapterLoad
from worker.engine.prompts import LOADER, MOST_STEPS, SHARE_WAITED, THREAD, PromptEncoding
from worker.engine.slot import Ticket

LIMIT_S = 20.0
SHOWN = AppliedIpAdapter(id="a", image="b", models=("tiny",))


class ReadingRunner(FakeRunner):
    """Encodes a prompt when it is let, and says in which thread."""

    def __init__(self):
        super().__init__()
        self.may_go_on, self.read, self.opened = threading.Event(), [], []
        self.took_s = 0.0  #: the last prompt

    def encoding(self, request):
        if request.prompt == "kept":
            return None
        encode = partial(self._encode, request)
        return encode if request.ip_adapter is None else AdapterLoad(encode)

    def _encode(self, request):
        began = time.perf_counter()
        assert self.may_go_on.wait(LIMIT_S)
        self.took_s = time.perf_counter() - began
        self.read.append((request.seed, threading.current_thread().name))
        if request.prompt == "fail encoding":
            raise ValueError("a poisoned prompt")

    def open(self, request, seed, inputs=None):
        self.opened.append((seed, [read for read, _ in self.read]))
        return super().open(request, seed, inputs)


def beside(runner, steps=40, **limits):
    """An engine with a long image on its way, whose steps take a second as far as it knows."""
    engine = an_engine(runner, **limits)
    was_set = runner.may_go_on.is_set()
    runner.may_go_on.set()
    engine.add(a_job("long", seed=1, steps=steps), None)
    engine.step()
    if not was_set:
        runner.may_go_on.clear()
    engine._batch.next_batch.step_s["tiny"] = 1.0
    return engine


def usually(engine, seconds):
    engine._prompts._took["tiny"] = deque([seconds])


def test_with_nobody_to_wait_for_it_a_prompt_is_encoded_where_its_image_is_opened():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = an_engine(runner)
    engine.add(a_job("a", seed=1, steps=1), None)
    engine.step()
    assert runner.opened == [(1, [1])]
    assert runner.read == [(1, threading.current_thread().name)]


def test_a_prompt_of_which_nobody_knows_how_long_it_takes_is_encoded_beside_the_others():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner)
    engine._prompts._took.clear()
    short = engine.add(a_job("short", seed=2, steps=2), None)
    engine.step()
    assert runner.batches[-1] == [1, 2]
    seed, thread = runner.read[-1]
    assert seed == 2 and thread.startswith(THREAD)
    assert runner.opened[-1] == (2, [1, 2]), "it is opened once its prompt is encoded"
    run_out(engine)
    assert np.all(short.result(0).images[0] == value_of(2, 2))


def test_a_brief_prompt_is_encoded_between_two_steps_and_joins_at_the_next():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner)
    usually(engine, SHARE_WAITED)
    engine.add(a_job("short", seed=2, steps=2), None)
    assert runner.read[-1][0] == 1, "nobody is at it beside the step"
    engine.step()
    assert runner.batches[-1] == [1, 2]
    assert runner.read[-1] == (2, threading.current_thread().name)


def test_while_an_ip_adapter_is_loaded_others_step_and_join_before_its_image():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1e-9)
    shown = engine.add(a_job("shown", seed=2, steps=2, ip_adapter=SHOWN), None)
    engine.add(a_job("plain", seed=3, steps=2, prompt="kept"), None)
    for _ in range(2 * MOST_STEPS):  # however many steps it takes
        engine.step()
    assert [1, 3] in runner.batches and runner.batches[-1] == [1]
    runner.may_go_on.set()
    wait([engine._batch.waiting[0].ticket.encoded], LIMIT_S)
    engine.step()
    assert runner.batches[-1] == [1, 2]
    assert runner.read[-1][1].startswith(LOADER)
    run_out(engine)
    assert shown.result(0)


def test_an_ip_adapter_that_cannot_be_loaded_fails_its_job_and_is_not_loaded_again():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner)
    shown = a_job("shown", seed=2, steps=2, n=2, prompt="fail encoding", ip_adapter=SHOWN)
    failed = engine.add(shown, None)
    run_out(engine)
    assert "a poisoned prompt" in str(error_of(failed))
    assert [seed for seed, _ in runner.read] == [1, 2] and [seed for seed, _ in runner.opened] == [
        1
    ]


def test_with_nobody_stepping_others_are_made_while_an_ip_adapter_is_loaded():
    runner = ReadingRunner()
    engine = an_engine(runner)
    shown = engine.add(a_job("shown", seed=2, steps=2, ip_adapter=SHOWN), None)
    plain = engine.add(a_job("plain", seed=3, steps=2, prompt="kept"), None)
    while not plain.done():
        engine.step()
    assert not shown.done() and engine.step()
    assert not engine.close(), "which waits for what is loaded"
    runner.may_go_on.set()
    assert isinstance(error_of(shown), JobStopped)


def test_nothing_is_loaded_for_a_job_that_has_left():
    runner = ReadingRunner()
    engine = beside(runner)
    for seed in (2, 3):
        engine.add(a_job(f"j{seed}", seed=seed, steps=2, ip_adapter=SHOWN), None)
    engine.step()
    engine.stop("j3", JobCanceled("asked to"))
    engine.step()
    runner.may_go_on.set()
    run_out(engine)
    assert [seed for seed, _ in runner.read] == [1, 2]


def test_a_prompt_waits_behind_no_ip_adapter_that_is_loaded():
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, 1.0)
    engine.add(a_job("shown", seed=2, steps=2, ip_adapter=SHOWN), None)
    engine.add(a_job("short", seed=3, steps=2), None)
    tickets = {ticket.job.id: ticket for ticket in engine._inbox}
    runner.may_go_on.set()
    wait([ticket.encoded for ticket in tickets.values()], LIMIT_S)
    assert {seed: name.partition("_")[0] for seed, name in runner.read[-2:]} == {
        2: LOADER,
        3: THREAD,
    }


def test_while_all_slots_are_taken_prompts_of_those_who_wait_are_encoded_one_a_step():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner, max_slots=1)
    usually(engine, SHARE_WAITED)
    for seed in (2, 3):
        engine.add(a_job(f"j{seed}", seed=seed, steps=2), None)
    for read in ([1, 2], [1, 2, 3], [1, 2, 3]):
        engine.step()
        assert [seed for seed, _ in runner.read] == read
    assert runner.batches[-1] == [1]


def test_no_prompt_is_encoded_ahead_beside_a_decoder_or_what_is_opened():
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner, max_slots=2)
    usually(engine, SHARE_WAITED)
    for seed in (2, 3):
        engine.add(a_job(f"j{seed}", seed=seed, steps=2), None)
    engine.step()
    assert [seed for seed, _ in runner.read] == [1, 2]
    batch = engine._batch
    batch.next_batch.step_s["tiny"] = 1.0
    batch._decode(batch.running[-1])
    batch.work_aside()
    assert [seed for seed, _ in runner.read] == [1, 2] and not batch.leaving
    batch.work_aside()
    assert [seed for seed, _ in runner.read] == [1, 2, 3]


@pytest.mark.parametrize("usual_s, batch", [(SHARE_WAITED, [1, 2]), (1.01 * SHARE_WAITED, [1])])
def test_others_wait_for_a_prompt_that_takes_little_of_a_step(usual_s, batch):
    runner = ReadingRunner()
    engine = beside(runner)
    usually(engine, usual_s)
    engine.add(a_job("short", seed=2, steps=2), None)
    if 2 in batch:
        threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == batch
    runner.may_go_on.set()


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
    engine = beside(runner, steps=2)
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


@pytest.mark.parametrize("usual_s", [SHARE_WAITED, 1.0])
def test_a_prompt_that_fails_ahead_is_opened_as_if_nobody_had_tried(usual_s):
    runner = ReadingRunner()
    runner.may_go_on.set()
    engine = beside(runner)
    usually(engine, usual_s)
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
    engine._prompts._took.clear()
    engine.add(a_job("short", seed=2, steps=2), None)
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == [1, 2] and runner.opened[-1] == (2, [1, 2])


@pytest.mark.parametrize("took, is_awaited", [([], True), ([0.1], False)])
def test_beside_steps_of_unknown_length_only_a_prompt_of_unknown_length_is_waited_for(
    took: list[float], is_awaited: bool
) -> None:
    runner = ReadingRunner()
    engine = beside(runner)
    engine._batch.next_batch.forget("tiny")
    engine._prompts._took["tiny"] = deque(took)
    engine.add(a_job("short", seed=2, steps=2), None)
    if is_awaited:
        threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == ([1, 2] if is_awaited else [1])
    runner.may_go_on.set()


def test_the_longer_the_step_the_longer_a_prompt_that_is_waited_for():
    runner = ReadingRunner()
    engine = beside(runner)
    engine._batch.next_batch.step_s["tiny"] = 2.0
    usually(engine, 2 * SHARE_WAITED)
    engine.add(a_job("short", seed=2, steps=2), None)
    threading.Timer(0.05, runner.may_go_on.set).start()
    engine.step()
    assert runner.batches[-1] == [1, 2]
    assert not runner.read[-1][1].startswith(THREAD)


def test_prompts_usually_take_what_half_of_the_last_took_wherever_they_were_encoded():
    runner, began = ReadingRunner(), time.perf_counter()
    engine = beside(runner)
    took, most_s = engine._prompts._took["tiny"], time.perf_counter() - began
    usually(engine, 1.0)
    began = time.perf_counter()
    engine.add(a_job("short", seed=2, steps=2), None)
    [ticket] = engine._inbox
    threading.Timer(0.05, runner.may_go_on.set).start()
    wait([ticket.encoded], LIMIT_S)
    most_s_beside = time.perf_counter() - began
    assert len(took) == 1 and 0.0 < took[0] <= most_s, "of the first, where it was opened"
    one, other = engine._prompts._took["tiny"]
    assert one == 1.0 and runner.took_s / 2 <= other <= most_s_beside / 2, "as it waited"
    for seconds, usual_s in ((2.0, 1.0), (3.0, 1.0), (3.0, 2.0)):
        engine._prompts._took["tiny"].append(seconds)
        assert engine._prompts._usual_s(ticket, unknown_s=0.0) == usual_s
    engine.close()


def test_what_a_thread_computed_for_one_prompt_is_not_counted_for_the_next():
    computed_s = 0.02

    class Computing(ReadingRunner):
        def _encode(self, request):
            until = time.thread_time() + (computed_s if request.seed == 2 else 0.0)
            while time.thread_time() < until:
                pass

    engine = beside(Computing())
    usually(engine, 1.0)
    futures = [engine.add(a_job(f"j{seed}", seed=seed, steps=2), None) for seed in range(2, 8)]
    run_out(engine)
    assert all(each.result(0) for each in futures)
    _, first, *others = engine._prompts._took["tiny"]
    assert min(others) < computed_s <= first


def test_nothing_is_encoded_for_an_engine_that_has_closed():
    runner, prompts = ReadingRunner(), PromptEncoding()
    ticket = Ticket(job=a_job("a"), runner=runner, due_at=0.0, deadline=None)
    prompts.close()
    prompts.begin(ticket, lambda: None, 1.0)
    assert ticket.encoded is None and ticket.encode is None
