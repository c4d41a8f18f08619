"""An image under an IP-Adapter is that of the stock pipelines."""

from inspect import signature

import diffusers
import numpy as np
import pytest
import torch
from diffusers import UNet2DConditionModel
from PIL import Image

from core.errors import EngineError
from core.uploads.ip_adapter import AppliedIpAdapter
from tests.cases import rarely_but
from tests.integration.test_edit_parity import some_inputs as edit_inputs
from tests.integration.test_img2img_parity import some_inputs as image_inputs
from tests.ip_adapters import FILE, save_ip_adapter
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_scheduler
from worker.diffusion.runner import WordInputs

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOGETHER = 1e-5
SAVE = {"sd": save_sd, "sdxl": save_sdxl}
KINDS = ("plain", "plus")


def a_picture(seed):
    """Not square: its centre is cut out."""
    return np.random.default_rng(seed).integers(0, 256, (24, 40, 3), np.uint8)


class House:
    """One model with two IP-Adapters, as the service and as stock load them."""

    def __init__(self, folder, save):
        self.model = save(folder / "model")
        self.folder = folder
        unet = UNet2DConditionModel.from_pretrained(folder / "model" / "unet")
        for seed, kind in enumerate(KINDS):
            path = folder / "adapters" / kind
            save_ip_adapter(path, unet, [self.model.name], is_plus=kind == "plus", seed=seed)
        self.recorder = load_recorder(folder / "model", self.model)
        self.recorder.runner.overlays.show(folder / "adapters")

    def job(self, kind="plain", scale=0.7, id="j1", **changes):
        use = AppliedIpAdapter(id=kind, image="i", models=(self.model.name,), scale=scale)
        return a_job(id, model=self.model.name, ip_adapter=use, **changes)

    def stock(self, job, shown, of=None, **more):
        """By the stock pipeline, or one made `of` its parts."""
        request, use = job.request, job.request.ip_adapter
        pipe = load_stock(self.folder / "model")
        own = pipe.scheduler
        pipe = of(pipe) if of else pipe
        pipe.set_progress_bar_config(disable=True)
        pipe.load_ip_adapter(
            str(self.folder / "adapters" / use.id),
            subfolder="",
            weight_name=FILE,
            local_files_only=True,
        )
        pipe.set_ip_adapter_scale(use.scale)
        pipe.scheduler = stock_scheduler(own, request.scheduler)
        asks_size = "height" in signature(pipe.__call__).parameters
        size = {"height": request.height, "width": request.width} if asks_size else {}
        return pipe(
            request.prompt,
            negative_prompt=request.negative_prompt,
            ip_adapter_image=Image.fromarray(shown),
            **size,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
            **more,
        ).images[0]

    def make(self, jobs, shown, **of):
        inputs = {
            job.id: WordInputs(vectors={}, shown=shown[job.id]) for job in jobs if job.id in shown
        }
        made = engine_images(
            self.recorder, [(at, job) for at, job in enumerate(jobs)], inputs=inputs, **of
        )
        return {job.id: made[job.id] for job in jobs}


@pytest.fixture(scope="module", params=rarely_but(["sdxl"], SAVE))
def house(request, tmp_path_factory):
    return House(tmp_path_factory.mktemp("ip"), SAVE[request.param])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guidance", [5.0, 1.0])
def test_an_image_that_is_shown_a_picture_is_the_stock_pipelines(house, kind, guidance):
    job, shown = house.job(kind, guidance=guidance), a_picture(1)
    made = house.make([job], {job.id: shown})[job.id][0]
    assert difference(made, house.stock(job, shown)) <= TOGETHER
    silent = a_job(model=house.model.name, guidance=guidance)
    without = house.make([silent], {})[silent.id][0]
    assert difference(made, without) > 1e-3


def test_it_is_so_among_strangers_of_other_scales_pictures_and_adapters(house):
    jobs = [
        house.job(id="a", scale=0.7, seed=1, steps=5),
        a_job("b", model=house.model.name, seed=2, steps=5),
        house.job(id="c", scale=0.2, seed=3, steps=4),
        house.job(id="d", scale=0.7, seed=4, guidance=1.0, steps=5),
        house.job("plus", id="e", seed=5, steps=4),
        house.job(id="f", scale=0.0, seed=6),
    ]
    house.recorder.batches.clear()
    shown = {job.id: a_picture(at) for at, job in enumerate(jobs) if job.request.ip_adapter}
    made = house.make(jobs, shown)
    for job in jobs:
        if job.id in shown:
            alone = house.stock(job, shown[job.id])
        else:
            alone = house.make([job], {})[job.id][0]
        assert difference(made[job.id][0], alone) <= TOGETHER
    assert max(house.recorder.batches) == 2  # those with one adapter and scale share their calls
    left = house.recorder.runner.unet.attn_processors.values()
    assert {type(each).__name__ for each in left} == {"AttnProcessor2_0"}


def test_an_edit_and_an_image_from_a_picture_attend_to_theirs(house):
    edit, image = house.job(id="edit", steps=6, seed=3), house.job("plus", id="image", steps=6)
    inputs = {"edit": edit_inputs(1, strength=0.7), "image": image_inputs(2, 0.6)}
    pairs = [("edit", edit, a_picture(1)), ("image", image, a_picture(2))]
    brought = {
        name: WordInputs(vectors={}, shown=shown, rest=inputs[name]) for name, _, shown in pairs
    }
    made = engine_images(house.recorder, [(0, edit), (1, image)], inputs=brought)
    begun = {
        "edit": (diffusers.AutoPipelineForInpainting.from_pipe, {}),
        "image": (diffusers.AutoPipelineForImage2Image.from_pipe, {}),
    }
    begun["edit"][1]["image"] = Image.fromarray(inputs["edit"].template)
    begun["edit"][1]["mask_image"] = Image.fromarray(inputs["edit"].mask)
    begun["image"][1]["image"] = Image.fromarray(inputs["image"].image)
    for name, job, shown in pairs:
        of, told = begun[name]
        expected = house.stock(job, shown, of, strength=inputs[name].strength, **told)
        assert difference(made[name][0], expected) <= TOGETHER


def test_a_file_for_another_model_fails_its_job_by_name(house, tmp_path):
    other = save_sdxl(tmp_path / "m") if house.model.family == "sd" else save_sd(tmp_path / "m")
    unet = UNet2DConditionModel.from_pretrained(tmp_path / "m" / "unet")
    save_ip_adapter(house.folder / "adapters" / "strange", unet, [other.name])
    job = house.job("strange")
    failed = house.make([job], {job.id: a_picture(1)}, are_failing=True)[job.id]
    assert isinstance(failed, EngineError)
    assert "IP-Adapter strange cannot be used with this model" in str(failed)
