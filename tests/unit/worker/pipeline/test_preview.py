import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, EulerDiscreteScheduler
from diffusers import FlowMatchEulerDiscreteScheduler as FlowScheduler

from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.diffusion.samplers.sampler import Sampler
from worker.engine.engine import Engine
from worker.families.load import load
from worker.jobs.previews import Previews
from worker.pipeline.preview import SIDE, Glance, encode, fit, paint

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


def seeded(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("scheduler", [DDIMScheduler(), EulerDiscreteScheduler(), FlowScheduler()])
def test_two_steps_along_a_line_tell_the_image_from_its_noise(scheduler):
    sampler = Sampler(scheduler, 10, torch.Generator())
    image, noise = seeded(1, 4, 8, 8), seeded(1, 4, 8, 8, seed=1)

    def look(position):
        sampler.position = position
        return Glance.at(sampler.add_noise(image, noise, position), sampler)

    for position in range(10):
        before, now = look(position), look(position + 1)
        guess = now.image_after(before, is_straight=True)
        assert torch.allclose(guess, image, atol=1e-3)


def test_what_cannot_be_told_from_noise_is_shown_with_it():
    latents = seeded(1, 4, 8, 8)
    noisy = Glance(latents=latents, signal=0.6, noise=0.8, position=3)
    assert torch.allclose(noisy.image_after(noisy, is_straight=True), latents)
    assert torch.allclose(noisy.image_after(noisy, is_straight=False), latents)


def test_an_autoencoder_that_is_a_matrix_is_found():
    matrix = torch.linalg.qr(seeded(3, 3)).Q

    def encoded(picture):
        return torch.einsum("bchw,dc->bdhw", picture[:, :, ::8, ::8] - 0.25, matrix)

    found = fit(encoded, 8)
    assert torch.allclose(found[:3], matrix, atol=1e-4)
    assert torch.allclose(found[3], torch.full((3,), 0.25), atol=1e-4)


def test_the_latents_of_an_autoencoder_are_scaled_as_those_of_its_model(runner):
    vae, picture = runner.pipe.vae, seeded(1, 3, 64, 64).clamp(-1, 1)
    with torch.inference_mode():
        latents = encode(vae, picture)
        assert torch.allclose(
            runner.decode_latents(latents),
            vae.decode(vae.encode(picture).latent_dist.mode()).sample,
            atol=1e-5,
        )
    vae.register_to_config(latents_mean=[0.5] * 4, latents_std=[2.0] * 4)
    try:
        with torch.inference_mode():
            scaled = encode(vae, picture)
            assert torch.allclose(scaled, latents / 2 - 0.25 * vae.config.scaling_factor, atol=1e-6)
    finally:
        vae.register_to_config(latents_mean=None, latents_std=None)


@pytest.mark.parametrize(
    ("size", "small"), [((64, 64), (64, 64)), ((1024, 512), (SIDE, 64)), ((96, 1536), (8, SIDE))]
)
def test_a_picture_has_the_shape_of_its_image_and_is_small(size, small):
    latents = torch.zeros(1, 4, size[1] // 8, size[0] // 8)
    pixels = paint(latents, torch.zeros(5, 3), size)
    assert pixels.shape == (small[1], small[0], 3)
    assert (pixels == 128).all()


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return load(folder, save_sdxl(folder), device="cpu", dtype="float32")


@pytest.mark.parametrize("scheduler", ["ddim", "euler-ancestral", "dpm++2m", "pndm"])
def test_an_image_that_is_watched_is_the_same_image(runner, scheduler):
    plain, _ = made(runner, scheduler, watched=())
    seen, documents = made(runner, scheduler, watched=("a",))
    assert documents
    assert np.array_equal(plain, seen)


def made(runner, scheduler, watched):
    previews, documents = Previews(clock=iter(range(0, 1000, 2)).__next__), []

    def note(batch, step_s):
        previews.want(watched)
        previews.note(batch)

    engine = Engine(max_slots=2, max_rows=4, slo_s=60, on_step=note)
    engine.attach(runner)
    future = engine.add(a_job("a", steps=6, scheduler=scheduler), None)
    while engine.step():
        pass
    previews._painters.shutdown()
    documents += previews.take().values()
    return future.result().images[0], documents


def test_what_a_safety_checker_would_see_is_not_shown(runner):
    sample = runner.open(a_request(), 0)
    runner.pipe.safety_checker = object()
    try:
        assert runner.preview(sample, a_request()) is None
        assert sample.glance is None
    finally:
        del runner.pipe.safety_checker
