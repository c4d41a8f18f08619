"""Is an image that goes on from latents the image that left them? On the real engine."""

from dataclasses import replace
from itertools import cycle

import pytest
import torch

from core.job import Quality
from tests.cases import rarely_but
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder
from worker.diffusion.runner import Borrowed
from worker.engine.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

STEPS = 10
SAMPLERS_OF = {
    "sdxl": [
        None,
        "ddim",
        "dpm++2m",
        "unipc",
    ],  # of all others: tests/unit/worker/diffusion/test_snapshot.py
    "sd": [None, "heun"],
    "sd3": [None, "heun"],
    "flux": [None],
}


SAVED = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}


@pytest.fixture(scope="module", params=rarely_but(["sdxl", "flux"], SAVED))
def recorder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    recorder = load_recorder(folder, SAVED[request.param](folder, name="tiny"))
    recorder.runner.overlays.lend()
    recorder.samplers = SAMPLERS_OF[recorder.model.family]
    return recorder


def make(recorder, job, brought=None):
    """What the engine says of one job, made alone."""
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(recorder)
    future = engine.add(job, None, brought)
    recorder.batches.clear()
    while engine.step():
        pass
    return future.result()


def borrowed(made, skip):
    return Borrowed(skipped_steps=skip, data=made.left[skip].write())


def test_the_same_prompt_and_seed_give_the_same_image(recorder):
    for sampler in recorder.samplers:
        job = a_job(steps=STEPS, scheduler=sampler)
        whole = make(recorder, job)
        calls = len(recorder.batches)
        assert tuple(whole.left) == (5, 10, 15, 20, 25)
        for skip in (5, 20):
            again = make(recorder, job, borrowed(whole, skip))
            assert (again.images[0] == whole.images[0]).all(), (sampler, skip)
            assert again.reached.skipped_steps == skip
            assert tuple(again.left) == tuple(k for k in whole.left if k > skip)
            assert len(recorder.batches) < calls


def test_another_prompt_goes_on_as_itself(recorder):
    whole = make(recorder, a_job(steps=STEPS))
    other = a_job(steps=STEPS, prompt="three blue stars on green", seed=5)
    early, late = (make(recorder, other, borrowed(whole, skip)).images[0] for skip in (5, 25))
    assert difference(early, late) > 0
    assert difference(late, whole.images[0]) > 0


def test_images_that_begin_at_different_steps_share_batches_and_stay_themselves(recorder):
    jobs, brought = [], {}
    for number, sampler in zip(range(4), cycle(recorder.samplers), strict=False):
        job = a_job(f"j{number}", steps=STEPS, scheduler=sampler, at=float(number), seed=number)
        lender = make(recorder, replace(job, request=replace(job.request, prompt="lender")))
        jobs.append((number % 2, job))
        brought[job.id] = borrowed(lender, 5 * (number + 1))
    jobs.append((1, a_job("whole", steps=STEPS, at=9.0)))
    recorder.batches.clear()
    together = engine_images(recorder, jobs, inputs=brought)
    assert max(recorder.batches) > 2
    for _, job in jobs:
        alone = engine_images(recorder, [(0, job)], inputs=brought)[job.id]
        assert difference(together[job.id][0], alone[0]) <= 1e-4


def test_latents_of_another_size_are_left_alone(recorder):
    job = a_job(steps=STEPS)
    whole = make(recorder, job)
    small = make(recorder, a_job(steps=STEPS, width=16, height=16))
    made = make(recorder, job, borrowed(small, 10))
    assert made.reached.skipped_steps == 0
    assert (made.images[0] == whole.images[0]).all()


def test_what_an_image_leaves_does_not_change_it_and_is_of_the_first_alone(recorder):
    job = a_job(steps=STEPS, n=2)
    with_trail = make(recorder, job)
    recorder.runner.overlays.lend(lambda: False)
    without = make(recorder, job)
    recorder.runner.overlays.lend()
    assert without.left == {}
    for image, same in zip(with_trail.images, without.images, strict=True):
        assert (image == same).all()
    first = make(recorder, a_job(steps=STEPS))
    ours, firsts = (made.left[10].tensors["latents"] for made in (with_trail, first))
    torch.testing.assert_close(ours, firsts, atol=1e-4, rtol=1e-4)


def test_edits_leave_nothing_and_exact_jobs_do(recorder):
    edit = a_job(steps=STEPS, edit=EDIT)
    assert make(recorder, edit, some_inputs(1)).left == {}
    assert make(recorder, a_job(steps=STEPS, quality=Quality.EXACT)).left
    assert make(recorder, a_job(steps=STEPS, negative_prompt="blue")).left == {}


def test_a_state_is_as_large_as_its_latents_and_what_the_sampler_remembers(recorder):
    whole = make(recorder, a_job(steps=STEPS))
    latents = whole.left[10].tensors["latents"]
    assert latents.dtype is torch.float32 and latents.device.type == "cpu"
    history = len(whole.left[10].tensors) - 1
    assert len(whole.left[10].write()) <= (1 + history) * latents.nbytes + 1000
