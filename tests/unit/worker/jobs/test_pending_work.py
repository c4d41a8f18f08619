from dataclasses import replace

from core.job import Edit
from core.model import Model
from core.recipe import works_of
from core.request.second_pass import SecondPass
from storage.jobs.waiting import Waiting
from tests.jobs import a_job
from worker.diffusion.runner import Sample
from worker.engine.slot import Slot, Ticket
from worker.families.noop import NoopRunner
from worker.jobs.pending_work import works

MODEL = Model(name="tiny", family="noop")
MODELS = {"tiny": MODEL}
EDIT = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png", masked=0.2)


def a_slot(job, step=1, rows=3):
    ticket = Ticket(job=job, runner=NoopRunner(MODEL), due_at=0.0, deadline=None)
    sample = Sample(group=(), rows=rows, num_steps=4, masked=0.5)
    return Slot(ticket=ticket, index=0, sample=sample, step=step)


def test_a_running_image_is_reported_as_it_runs():
    job = a_job("j1", edit=EDIT)
    [work] = works([a_slot(job)], [job], [], MODELS)
    assert (work.job, work.steps, work.rows, work.masked) == ("j1", 3, 3, 0.5)
    assert (work.pixels, work.recording) == (32 * 32, "")


def test_a_running_image_is_reported_with_the_second_pass_that_is_to_come():
    job = a_job("j1", steps=4, second_pass=SecondPass(scale=2.0, strength=0.5))
    [work] = works([a_slot(job)], [job], [], MODELS)
    assert (work.steps, work.pixels) == (3 + 8, 32 * 32)
    [whole] = works_of("j1", job.request, MODEL)
    assert whole.steps == 4 + 8


def test_what_is_claimed_and_has_not_begun_is_reported_as_it_was_asked_for():
    job = a_job("j1", edit=EDIT)
    assert works([], [job], [], MODELS) == works_of("j1", job.request, MODEL)


def test_of_what_waits_only_this_workers_own_is_reported_and_once():
    mine, claimed, anyones = (a_job(name, edit=EDIT).request for name in ("a", "b", "c"))
    waiting = [
        Waiting(job_id="a", queue="gen.tiny@w@h", request=mine),
        Waiting(job_id="b", queue="gen.tiny@w@h", request=claimed),
        Waiting(job_id="c", queue="gen.tiny", request=anyones),
        Waiting(job_id="d", queue="gen.tiny@w@h", request=replace(mine, model="unknown")),
    ]
    found = works([], [a_job("b", edit=EDIT)], waiting, MODELS)
    assert [work.job for work in found] == ["b", "a"]


def test_the_images_of_a_job_that_have_not_begun_are_reported_beside_those_that_have():
    job = a_job("j1", n=3)
    found = works([a_slot(job)], [job], [], MODELS)
    assert [work.steps for work in found] == [3, 4, 4]
