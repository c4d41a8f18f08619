"""A job that another worker began goes on where it stood; some images are made in two passes."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.errors import EngineError, JobCanceled, JobHandedOver
from core.job import Job, JobRequest
from core.request.second_pass import SecondPass
from tests.jobs import a_job
from tests.unit.worker.engine.test_aside import LayeredRunner
from tests.unit.worker.engine.test_engine import an_engine, run_out
from tests.unit.worker.engine.test_stats import slots_of
from tests.unit.worker.fake import FakeRunner, FakeSample, value_of
from worker.diffusion.image_state import ImageState
from worker.diffusion.runner import Borrowed, InitInputs, JobInputs, Pixels, WordInputs
from worker.engine.batch import denoising
from worker.engine.engine import Engine, JobImages
from worker.engine.reopening import second_opening
from worker.engine.slot import Pending, alone
from worker.engine.stats import PREPARING

#: The first of them takes a third of the time, the second two.
TWICE = SecondPass(scale=2.0, strength=0.5)


class ResumingRunner(LayeredRunner):
    """Goes on from values, unless they are odd or there is no room."""

    def __init__(self, *, repeats: int = 0) -> None:
        super().__init__()
        self.repeats, self.is_full = repeats, False
        self.room = 99  #: images that it opens from now on
        self.opened: list[tuple[int, JobInputs | None]] = []
        self.resumed: list[bytes] = []

    def open(self, request: JobRequest, seed: int, inputs: JobInputs | None = None) -> FakeSample:
        self.opened.append((request.width, inputs))
        self.room -= 1
        if self.room < 0:
            raise self.memory_error
        return super().open(request, seed, inputs)

    def resume(self, sample: FakeSample, payload: bytes) -> int:
        self.resumed.append(payload)
        if payload == b"odd":
            raise EngineError("a state of another model")
        if self.is_full:
            raise self.memory_error
        sample.value = float(payload)
        return self.repeats

    def decode(self, sample: FakeSample) -> Pixels:
        return super().decode(sample).astype(np.uint8)


def a_state(payload: bytes = b"6", step: int = 3, **changes: Any) -> ImageState:
    return ImageState(identity="", step=step, steps=4, payload=payload, **changes)


def begun(
    runner: FakeRunner, job: Job, *states: ImageState, brought: JobInputs | None = None
) -> "tuple[Engine, Future[JobImages]]":
    """An engine with a job whose first images stood somewhere, and its future."""
    engine = an_engine(runner)
    return engine, engine.add(job, None, brought, dict(enumerate(states)))


def test_of_a_job_that_is_handed_over_its_own_images_are_seen_before_they_leave() -> None:
    seen: list[list[int]] = []
    engine = Engine(
        max_slots=8,
        max_rows=16,
        slo_s=60,
        on_hand_over=lambda ticket, slots: seen.append([slot.sample.seed for slot in slots]),
    )
    engine.attach(LayeredRunner())
    for seed, name in enumerate(("goes", "canceled", "stays")):
        engine.add(a_job(name, seed=10 * seed, n=2), None)
    engine.step()
    engine.stop("goes", JobHandedOver("elsewhere"))
    engine.stop("canceled", JobCanceled("asked to"))
    engine.step()
    assert seen == [[0, 1]]


@pytest.mark.parametrize("repeats", [0, 1])
def test_an_image_goes_on_where_it_stood_but_for_steps_that_are_taken_again(repeats: int) -> None:
    runner = ResumingRunner(repeats=repeats)
    engine, future = begun(runner, a_job("a", seed=40), a_state())
    run_out(engine)
    assert runner.batches == [[40]] * (1 + repeats)
    assert np.all(future.result(0).images[0] == value_of(6, 1 + repeats))
    assert runner.closed == [40], "once it has taken its last step"


def test_steps_that_another_worker_has_taken_are_over() -> None:
    engine, _ = begun(ResumingRunner(repeats=1), a_job("a", n=2), a_state())
    engine.step()
    assert engine.progress()["a"].step == (3 + 1) // 2


def test_what_was_left_out_of_an_image_is_known_where_it_goes_on() -> None:
    engine, future = begun(ResumingRunner(), a_job("a"), a_state(reached="10"))
    run_out(engine)
    assert future.result(0).reached.skipped_steps == 10


def test_an_image_that_stood_somewhere_borrows_nothing() -> None:
    lent, runner = Borrowed(skipped_steps=10, data=b""), ResumingRunner()
    engine, _ = begun(runner, a_job("a", n=2), a_state(), brought=lent)
    run_out(engine)
    assert runner.opened == [(32, None), (32, lent)]


@pytest.mark.parametrize("state", [a_state(b"odd"), a_state(is_second=True)])
def test_an_image_that_cannot_go_on_is_begun_anew(state: ImageState) -> None:
    runner = ResumingRunner()
    engine, future = begun(runner, a_job("a", seed=8), state)
    run_out(engine)
    assert np.all(future.result(0).images[0] == int(value_of(8, 4)))
    assert len(runner.closed) == len(runner.opened), "what was opened in vain is let go"


def test_a_state_that_finds_no_room_waits_for_it_and_is_not_lost() -> None:
    runner = ResumingRunner()
    engine, _ = begun(runner, a_job("a", steps=3))
    engine.step()
    runner.is_full = True
    late = engine.add(a_job("late", seed=8, at=1.0), None, states={0: a_state()})
    engine.step()
    runner.is_full = False
    run_out(engine)
    assert np.all(late.result(0).images[0] == value_of(6, 1))


def test_a_state_that_is_of_no_use_is_not_tried_again_when_there_is_room() -> None:
    runner = ResumingRunner()
    engine, _ = begun(runner, a_job("a", steps=3))
    engine.step()
    runner.room = 1
    engine.add(a_job("late", at=1.0), None, states={0: a_state(b"odd")})
    engine.step()
    runner.room = 9
    run_out(engine)
    assert runner.resumed == [b"odd"] and len(runner.opened) == 4


def test_an_image_that_was_in_its_second_pass_goes_on_there_without_its_picture() -> None:
    runner = ResumingRunner()
    job = a_job("a", seed=40, second_pass=TWICE)
    engine, future = begun(runner, job, a_state(step=2, is_second=True))
    engine.step()
    assert engine.progress()["a"].step == int(4 * (1 / 3 + 3 / 4 * 2 / 3))
    run_out(engine)
    [(width, brought)] = runner.opened
    assert width == 64 and isinstance(brought, InitInputs) and not brought.image.any()
    assert np.all(future.result(0).images[0] == value_of(6, 2))


@pytest.mark.parametrize("max_slots", [1, 4])
@pytest.mark.parametrize("images", [1, 3])
def test_a_job_of_two_passes_leaves_its_slots_once_after_the_last(
    max_slots: int, images: int
) -> None:
    left: list[int] = []
    runner = ResumingRunner()
    engine = Engine(
        max_slots=max_slots,
        max_rows=8,
        slo_s=60.0,
        on_left=lambda _: left.append(len(runner.opened)),
    )
    engine.attach(runner)
    engine.add(a_job("a", steps=2, n=images, second_pass=TWICE), None)
    run_out(engine)
    assert left == [2 * images]  # each was opened twice by then


def test_an_image_is_opened_again_for_its_second_pass_from_what_the_first_has_made() -> None:
    runner = ResumingRunner()
    engine, future = begun(runner, a_job("a", seed=34, second_pass=TWICE), a_state(b"14"))
    run_out(engine)
    (_, first), (width, second) = runner.opened
    assert first is None and width == 64 and np.all(second.image == value_of(14, 1))
    assert runner.resumed == [b"14"], "the state was of its first pass"
    assert np.all(future.result(0).images[0] == int(value_of(34, 4)))


def test_each_pass_is_its_share_of_the_progress_and_the_last_alone_says_how_long_it_takes() -> None:
    engine, _ = begun(ResumingRunner(), a_job("a", steps=6, second_pass=TWICE))
    seen: list[int] = []
    known: list[bool] = []
    for _ in range(11):
        engine.step()
        seen.append(engine.progress()["a"].step)
        known.append("a" in engine.left_s())
    assert seen == [0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 5]
    assert known == [False] * 6 + [True] * 5


def test_a_job_that_is_canceled_while_its_first_pass_is_decoded_has_no_second() -> None:
    runner = ResumingRunner()
    engine, future = begun(runner, a_job("a", steps=1, second_pass=TWICE))
    other = engine.add(a_job("long", seed=1, steps=60), None)
    while "decode 0" not in runner.now:
        engine.step()
    engine.stop("a", JobCanceled("asked to"))
    run_out(engine)
    assert isinstance(future.exception(0), JobCanceled) and other.done()
    assert [width for width, _ in runner.opened] == [32, 32]


def test_a_second_pass_is_of_the_size_that_it_makes() -> None:
    job = a_job("a", steps=3, second_pass=TWICE)
    [slot] = slots_of(job)
    again = second_opening(job.request, np.zeros((32, 32, 3), np.uint8))
    assert again.brought.image.shape == (64, 64, 3)
    assert second_opening(again.request, again.brought.image) is None
    wide = a_job("b", width=64, height=32, second_pass=TWICE).request
    assert second_opening(wide, None).brought.image.shape == (64, 128, 3)
    words = WordInputs(vectors={"e": {}})
    told = second_opening(job.request, np.zeros((32, 32, 3), np.uint8), words).brought
    assert told.vectors is words.vectors and told.rest.image.shape == (64, 64, 3)
    pending = Pending(ticket=slot.ticket, index=0, again=again)
    assert alone(PREPARING, pending).pixels == 64 * 64
    later = replace(slot, again=again)
    assert (denoising([slot]).pixels, denoising([later]).pixels) == (32 * 32, 64 * 64)
    assert slot.pass_share + later.pass_share == pytest.approx(1)
    assert slot.pass_share == pytest.approx(1 / 3)
