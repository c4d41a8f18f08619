import pytest
import torch
from diffusers import FluxPipeline
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EngineError
from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_flux
from tests.stock import Recorder, difference, engine_images
from worker.families.flux import pack, unpack
from worker.families.load import load

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-flux"
    return load(folder, save_flux(folder), device="cpu", dtype="float32")


def steps_of(runner, **changes):
    return runner.open(a_request(**changes), 0).sampler.times


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_latents_are_packed_as_stock_packs_them_and_come_back(batch, channels, height, width):
    latents = torch.randn(batch, channels, 2 * height, 2 * width)
    stock = FluxPipeline._pack_latents(latents, *latents.shape)
    assert torch.equal(pack(latents), stock)
    assert torch.equal(unpack(stock, 2 * height), latents)


def test_an_image_takes_one_row_whatever_its_guidance(runner):
    samples = [runner.open(a_request(guidance=scale), 0) for scale in (0.0, 1.0, 5.0)]
    assert [sample.rows for sample in samples] == [1, 1, 1]
    assert [sample.conditioning.added["guidance"].item() for sample in samples] == [0.0, 1.0, 5.0]


def test_images_of_other_guidance_share_a_batch_and_differ(runner):
    jobs = [(0, a_job(f"j{scale}", model="tiny-flux", guidance=scale)) for scale in (1.0, 9.0)]
    recorder = Recorder(runner)
    low, high = (images[0] for images in engine_images(recorder, jobs).values())
    assert max(recorder.batches) == 2
    assert difference(low, high) > 1e-3


def test_a_larger_picture_spends_more_steps_on_noise(runner):
    assert all(
        small < large
        for small, large in zip(
            steps_of(runner)[1:], steps_of(runner, height=48, width=48)[1:], strict=True
        )
    )


def test_a_model_without_a_shift_has_none(tmp_path):
    model = save_flux(tmp_path, shift=False, guidance_embeds=False)
    schnell = load(tmp_path, model, device="cpu", dtype="float32")
    assert steps_of(schnell) == pytest.approx([1000.0, 750.0, 500.0, 250.0])
    assert "guidance" not in schnell.open(a_request(), 0).conditioning.added


def test_samplers_that_know_no_shift_are_refused(runner):
    with pytest.raises(EngineError, match="'heun' is unknown; known: euler"):
        runner.open(a_request(scheduler="heun"), 0)
