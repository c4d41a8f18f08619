"""An image under a T2I-Adapter is that of the stock adapter pipelines."""

from dataclasses import replace
from inspect import signature

import pytest
import torch
from diffusers import (
    MultiAdapter,
    StableDiffusionAdapterPipeline,
    StableDiffusionXLAdapterPipeline,
    T2IAdapter,
    UNet2DConditionModel,
)
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from catalog.controlnet.encoder import Traits
from catalog.controlnet.manifest import find_config, read_encoder, read_tensors
from core.errors import BadWeights
from core.job import Control
from tests.control import ControlHouse, some_conditions
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder, stock_image, stock_scheduler
from worker.control.stale import Stale

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.filterwarnings("ignore:The decode_latents method is deprecated:FutureWarning"),
]

TOGETHER = 1e-5


def adapter(name, **of):
    return Control(controlnet=name, image="", is_adapter=True, **of)


#: What steers, and guidance.
CASES = {
    "one": ((adapter("wide"),), 5.0),
    "one, without guidance": ((adapter("grey", scale=0.6),), 1.0),
    "a part of the schedule": ((adapter("wide", end=0.5),), 5.0),
    "two": ((adapter("wide", scale=0.4), adapter("other")), 5.0),
}
#: Of a latent that is half as large as its picture, in a UNet of two blocks.
XL = {
    "wide": {"adapter_type": "full_adapter_xl", "channels": [16, 32], "downscale_factor": 4},
    "other": {"adapter_type": "full_adapter_xl", "channels": [16, 32], "downscale_factor": 4},
    "grey": {
        "adapter_type": "full_adapter_xl",
        "channels": [16, 32, 32],
        "downscale_factor": 4,
        "in_channels": 1,
    },
}
SD = {
    "full": {"adapter_type": "full_adapter", "channels": [16, 32], "downscale_factor": 2},
    "light": {"adapter_type": "light_adapter", "channels": [16, 32], "downscale_factor": 2},
}


def save_sd_as_it_is(folder):
    """As SD 1.5, whose first blocks attend to the prompt."""
    model = save_sd(folder)
    unet = UNet2DConditionModel.from_pretrained(folder / "unet")
    torch.manual_seed(3)
    of = dict(unet.config) | {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    UNet2DConditionModel.from_config(of).save_pretrained(folder / "unet")
    return model


class AdapterHouse(ControlHouse):
    """One base model, ControlNets, and T2I-Adapters."""

    def __init__(self, folder, save, stock_class, adapters):
        super().__init__(folder, save, stock_class)
        for seed, (name, of) in enumerate(adapters.items()):
            torch.manual_seed(80 + seed)
            T2IAdapter(num_res_blocks=2, **of).save_pretrained(folder / name)
            self.nets[name] = T2IAdapter.from_pretrained(folder / name)

    def stock(self, job, conditions):
        request, controls = job.request, job.request.controls
        nets = [self.nets[control.controlnet] for control in controls]
        is_one = len(nets) == 1
        parts = self.pipe.components | {
            "adapter": nets[0] if is_one else MultiAdapter(nets),
            "scheduler": stock_scheduler(self.pipe.scheduler, request.scheduler),
        }
        known = signature(self.stock_class.__init__).parameters
        extra = {"safety_checker": None, "requires_safety_checker": False}
        parts = {n: of for n, of in (parts | extra).items() if n in known}
        pipe = self.stock_class(**parts)
        pipe.set_progress_bar_config(disable=True)
        images = [
            Image.fromarray(pixels).convert("L" if net.config.in_channels == 1 else "RGB")
            if is_one
            else Image.fromarray(pixels)
            for pixels, net in zip(conditions, nets, strict=True)
        ]
        scales = [control.scale for control in controls]
        is_xl = self.stock_class is StableDiffusionXLAdapterPipeline
        return pipe(
            request.prompt,
            image=images[0] if is_one else images,
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            adapter_conditioning_scale=scales[0] if is_one else scales,
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
            **({"adapter_conditioning_factor": controls[0].end} if is_xl else {}),
        ).images[0]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xl")
    return AdapterHouse(folder, save_sdxl, StableDiffusionXLAdapterPipeline, XL)


@pytest.fixture(scope="module")
def sd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sd")
    return AdapterHouse(folder, save_sd_as_it_is, StableDiffusionAdapterPipeline, SD)


@pytest.fixture(scope="module")
def recorder(house):
    return house.recorder(LocalControlNets(house.residents()), Stale.ALWAYS)


def make(recorder, job, inputs):
    return engine_images(recorder, [(0, job)], inputs={job.id: inputs})[job.id][0]


@pytest.mark.parametrize(("controls", "guidance"), CASES.values(), ids=CASES)
def test_a_steered_image_is_the_stock_pipelines(house, recorder, controls, guidance):
    job = a_job(model=house.model.name, guidance=guidance, controls=controls)
    conditions = some_conditions(len(controls))
    image = make(recorder, job, conditions)
    assert difference(image, house.stock(job, conditions.images)) <= TOGETHER
    without = a_job(model=house.model.name, guidance=guidance)
    assert difference(image, make(recorder, without, None)) > 0.01


@pytest.mark.parametrize("name", SD)
def test_one_of_sd_is_the_stock_pipelines(sd, name):
    recorder = sd.recorder(LocalControlNets(sd.residents()))
    job, conditions = a_job(model=sd.model.name, controls=(adapter(name),)), some_conditions(1)
    image = make(recorder, job, conditions)
    assert difference(image, sd.stock(job, conditions.images)) <= TOGETHER
    without = a_job(model=sd.model.name)
    assert difference(image, make(recorder, without, None)) > 0.01


def test_images_with_and_without_share_a_batch(house):
    residents = house.residents()
    recorder = house.recorder(LocalControlNets(residents))
    edges = Control(controlnet="edges", image="")
    several = [(adapter("wide"),), (), (edges, adapter("other")), (adapter("grey"),), (edges,), ()]
    jobs = [
        a_job(f"j{i}", at=float(i), model=house.model.name, seed=i, steps=3 + i % 3, controls=of)
        for i, of in enumerate(several)
    ]
    brought = {job.id: some_conditions(len(job.request.controls), i) for i, job in enumerate(jobs)}
    recorder.batches.clear()
    made = engine_images(recorder, list(enumerate(jobs)), inputs=brought)
    assert max(recorder.batches) >= 3
    for job in jobs:
        alone = make(recorder, job, brought[job.id])
        assert difference(made[job.id][0], alone) <= TOGETHER
    plain = stock_image(house.pipe, house.pipe.scheduler, jobs[1].request)
    assert difference(made["j1"][0], plain) <= TOGETHER
    residents.expect("another", 2**40)
    assert residents.names == (), "none is in use"


def test_it_is_asked_once_an_image(house):
    asked = []

    class Counted(LocalControlNets):
        def ask(self, asks):
            asked.extend(asks)
            super().ask(asks)

    recorder = house.recorder(Counted(house.residents()))
    job = a_job(model=house.model.name, controls=(adapter("wide"),), steps=6)
    make(recorder, job, some_conditions(1))
    assert len(asked) == 1


@pytest.mark.parametrize("name", [*XL, *SD])
def test_its_config_follows_from_its_weights(house, sd, name):
    home = house if name in XL else sd
    data = (home.folder / name / "diffusion_pytorch_model.safetensors").read_bytes()
    of = read_encoder(home.folder / "base")
    config = find_config(read_tensors(data, len(data)), of)
    own = home.nets[name].config
    assert {n: own[n] for n in config if n[0] != "_"} == {
        n: value for n, value in config.items() if n[0] != "_"
    }
    with pytest.raises(BadWeights, match="nothing is to be chosen"):
        find_config(read_tensors(data, len(data)), of, Traits(is_bgr=True))


def test_what_does_not_fit_says_why(house, sd, tmp_path):
    data = (sd.folder / "light/diffusion_pytorch_model.safetensors").read_bytes()
    wide = (house.folder / "grey/diffusion_pytorch_model.safetensors").read_bytes()
    other = replace(read_encoder(house.folder / "base"), halvings=3)
    with pytest.raises(BadWeights, match="halved otherwise than this model's"):
        find_config(read_tensors(data, len(data)), other)
    model = save_sd3(tmp_path / "sd3")
    with pytest.raises(BadWeights):
        find_config(read_tensors(wide, len(wide)), read_encoder(tmp_path / "sd3"))
    recorder = load_recorder(tmp_path / "sd3", model)
    recorder.runner.overlays.steer(LocalControlNets(house.residents()))
    job = a_job(model=model.name, controls=(adapter("wide"),))
    inputs = {job.id: some_conditions(1)}
    made = engine_images(recorder, [(0, job)], inputs=inputs, are_failing=True)
    assert "is a T2I-Adapter, and those are for UNets alone" in str(made[job.id])
