"""What a job's images count for, and what is kept of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from core.levels.approximation import skipping
from core.request.second_pass import SecondPass
from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner
from worker.diffusion.runner import Sample
from worker.engine.batch import PATIENCE, rank
from worker.engine.slot import Slot, Ticket


def a_ticket(**request):
    return Ticket(job=a_job("a", **request), runner=FakeRunner(), due_at=0.0, deadline=None)


def a_slot(ticket, index=0, *, steps=4, skipped=0, left=None):
    reached = skipping(skipped)
    sample = Sample(group=("g",), rows=1, num_steps=steps, reached=reached, left=left or {})
    return Slot(ticket=ticket, index=index, sample=sample)


def test_an_image_that_takes_no_step_is_over_from_the_start():
    ticket = a_ticket(steps=4)
    slot = a_slot(ticket, steps=0)
    slot.note_begin()
    assert slot.is_finished and ticket.progress.step == 4


def test_steps_that_are_skipped_are_over_from_the_start_and_the_others_one_by_one():
    ticket = a_ticket(steps=8)
    slot = a_slot(ticket, steps=4, skipped=25)
    slot.note_begin()
    seen = [ticket.progress.step]
    while not slot.is_finished:
        slot.note_step()
        seen.append(ticket.progress.step)
    assert seen == [4, 5, 6, 7, 8]


def test_what_the_first_of_two_passes_skips_is_over_by_its_share_of_the_time() -> None:
    twice = SecondPass(scale=2.0, strength=0.5)
    ticket = a_ticket(steps=12, second_pass=twice)
    a_slot(ticket, steps=6, skipped=25).note_begin()
    assert ticket.progress.step == 12 * (1 / 2) * (1 / 3)


def test_progress_is_the_mean_over_the_images_of_a_job():
    ticket = a_ticket(steps=4, n=2)
    a_slot(ticket).note_step()
    a_slot(ticket, 1).note_step()
    assert ticket.progress.step == 1
    a_slot(ticket).note_step()
    assert ticket.steps_done == pytest.approx(0.75) and ticket.progress.step == 1


def test_a_job_leaves_behind_what_its_first_image_does_and_has_skipped_what_all_have():
    ticket = a_ticket(n=2, seed=7)
    first, second = {10: object()}, {20: object()}
    a_slot(ticket, 1, skipped=20, left=second).hand_over(np.ones((2, 2, 3)))
    assert ticket.left == {}
    a_slot(ticket, 0, skipped=10, left=first).hand_over(np.zeros((2, 2, 3)))
    made = ticket.made()
    assert (made.left, made.reached.skipped_steps, made.seeds) == (first, 10, (7, 8))
    assert [image.mean() for image in made.images] == [0, 1]


def test_a_job_comes_later_the_more_is_left_of_it_and_begins_in_time_for_its_deadline():
    ticket = a_ticket(steps=8)
    slot = a_slot(ticket, steps=4, skipped=25)
    slot.note_begin()
    came_at = ticket.job.waits_since
    assert rank(slot, 0.5, 2.0)[0] == came_at + PATIENCE * 4 * 0.5
    slot.note_step()
    assert rank(slot, 0.5, 2.0)[0] == came_at + PATIENCE * 3 * 0.5
    ticket.job = replace(ticket.job, deadline_at=came_at + 10.0)
    assert rank(slot, 0.5, 2.0)[0] == came_at + 10.0 - 3 * 2.0


def test_steps_that_cost_less_leave_less_to_do():
    ticket = a_ticket(steps=8)
    cheap = SimpleNamespace(head_start=0.0, step_cost=0.25, has_whole_steps=False)
    sample = Sample(group=("g",), rows=1, num_steps=8, reached=cheap)
    slot = Slot(ticket=ticket, index=0, sample=sample)
    assert rank(slot, 1.0, 1.0)[0] == ticket.job.waits_since + PATIENCE * 8 * 0.25


def test_the_one_step_of_an_image_is_all_of_it():
    ticket = a_ticket(steps=1)
    a_slot(ticket, steps=1).note_step()
    assert ticket.progress.step == 1
