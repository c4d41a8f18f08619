"""An image under a Union ControlNet is that of the stock pipelines for them."""

import pytest
import torch
from diffusers import (
    ControlNetUnionModel,
    StableDiffusionXLControlNetUnionInpaintPipeline,
    StableDiffusionXLControlNetUnionPipeline,
)
from diffusers.models import MultiControlNetUnionModel
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from catalog.controlnet.manifest import find_config, read_encoder, read_tensors
from core.job import Control, Edit, Quality, Task
from tests.control import ControlHouse, some_conditions
from tests.integration.test_edit_control import steered
from tests.integration.test_edit_parity import some_inputs
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, load_stock, stock_scheduler
from worker.control.session import MODES

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOGETHER = 1e-5
POSE = Control(controlnet="union", image="", mode=0)
WEAK = Control(controlnet="union", image="", mode=5, scale=0.4)
EARLY = Control(controlnet="union", image="", mode=3, end=0.5, scale=0.8)
OTHER = Control(controlnet="other", image="", mode=1, start=0.34)
EDGES = Control(controlnet="edges", image="")

CASES = {
    "one": ((POSE,), 5.0),
    "one, without guidance": ((EARLY,), 1.0),
    "two pictures of one": ((POSE, WEAK), 5.0),
    "one each of two": ((EARLY, OTHER), 5.0),
}


class UnionHouse(ControlHouse):
    """One base model, ControlNets, and two Unions."""

    def __init__(self, folder):
        super().__init__(folder, save_sdxl, None)
        for seed, name in enumerate(["union", "other"]):
            a_union(self.pipe.unet, seed).save_pretrained(folder / name)
            self.nets[name] = ControlNetUnionModel.from_pretrained(folder / name)

    def stock(self, stock_class, job, conditions, **more):
        request, controls = job.request, job.request.controls
        names = list(dict.fromkeys(control.controlnet for control in controls))
        nets = [self.nets[name] for name in names]
        parts = self.pipe.components | {
            "controlnet": nets[0] if len(nets) == 1 else MultiControlNetUnionModel(nets),
            "scheduler": stock_scheduler(self.pipe.scheduler, request.scheduler),
        }
        pipe = stock_class(**parts)
        pipe.set_progress_bar_config(disable=True)
        return pipe(
            request.prompt,
            control_image=[Image.fromarray(pixels) for pixels in conditions],
            control_mode=[control.mode for control in controls],
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            controlnet_conditioning_scale=[control.scale for control in controls],
            control_guidance_start=[control.start for control in controls],
            control_guidance_end=[control.end for control in controls],
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
            **more,
        ).images[0]


def a_union(unet, seed):
    torch.manual_seed(40 + seed)
    width = unet.config.block_out_channels[0]
    config = {name: of for name, of in unet.config.items() if not name.startswith("_")}
    config |= {"num_trans_channel": width, "num_proj_channel": width}
    config["conditioning_embedding_out_channels"] = (8, 16)
    net = ControlNetUnionModel.from_config(config)
    for name, weight in net.named_parameters():
        if ("controlnet_" in name or "spatial" in name) and name.endswith("weight"):
            torch.nn.init.normal_(weight, std=0.1)
    return net.eval()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return UnionHouse(tmp_path_factory.mktemp("union"))


@pytest.fixture(scope="module")
def recorder(house):
    return house.recorder(LocalControlNets(house.residents()))


def make(recorder, job, inputs):
    return engine_images(recorder, [(0, job)], inputs={job.id: inputs})[job.id][0]


@pytest.mark.parametrize(("controls", "guidance"), CASES.values(), ids=CASES)
def test_a_steered_image_is_the_stock_pipelines(house, recorder, controls, guidance):
    job = a_job(model=house.model.name, guidance=guidance, controls=controls)
    conditions = some_conditions(len(controls))
    image = make(recorder, job, conditions)
    stock = StableDiffusionXLControlNetUnionPipeline
    assert difference(image, house.stock(stock, job, conditions.images)) <= TOGETHER
    without = a_job(model=house.model.name, guidance=guidance)
    assert difference(image, make(recorder, without, None)) > 0.02


def test_modes_and_other_controlnets_share_a_batch(house, recorder):
    several = [(POSE,), (WEAK,), (), (POSE, WEAK), (WEAK, POSE), (EDGES,), (EARLY,)]
    jobs = [
        a_job(f"j{i}", at=float(i), model=house.model.name, seed=i, controls=controls)
        for i, controls in enumerate(several)
    ]
    brought = {job.id: some_conditions(len(job.request.controls), i) for i, job in enumerate(jobs)}
    recorder.batches.clear()
    made = engine_images(recorder, [(0, job) for job in jobs], inputs=brought)
    assert max(recorder.batches) >= 6
    for job in jobs:
        assert difference(made[job.id][0], make(recorder, job, brought[job.id])) <= TOGETHER


def test_an_edit_is_the_stock_pipelines(house, recorder):
    edit = Edit(template="t/template.png", template_sha256="ab", mask="t/mask.png")
    job = a_job(
        model=house.model.name,
        task=Task.EDIT,
        edit=edit,
        controls=(POSE,),
        quality=Quality.EXACT,
        steps=5,
    )
    inputs = steered(some_inputs(1), 1)
    expected = house.stock(
        StableDiffusionXLControlNetUnionInpaintPipeline,
        job,
        inputs.conditions,
        image=Image.fromarray(inputs.template),
        mask_image=Image.fromarray(inputs.mask),
        strength=1.0,
    )
    assert difference(make(recorder, job, inputs), expected) <= TOGETHER


def test_its_config_follows_from_its_weights(house):
    data = (house.folder / "union/diffusion_pytorch_model.safetensors").read_bytes()
    config = find_config(read_tensors(data, len(data)), read_encoder(house.folder / "base"))
    expected = dict(house.nets["union"].config)
    assert {name: expected[name] for name in config if name in expected and name[0] != "_"} == {
        name: value for name, value in config.items() if name in expected and name[0] != "_"
    }
    same = ControlNetUnionModel.from_config(config)
    same.load_state_dict(house.nets["union"].state_dict())


def test_one_of_another_model_or_without_its_mode_is_named(house, recorder, tmp_path):
    save_sd(tmp_path / "base")
    data = (house.folder / "union/diffusion_pytorch_model.safetensors").read_bytes()
    with pytest.raises(Exception, match="Union ControlNets are of SDXL"):
        find_config(read_tensors(data, len(data)), read_encoder(tmp_path / "base"))
    assert load_stock(tmp_path / "base").unet.config.addition_time_embed_dim is None
    job = a_job(model=house.model.name, controls=(Control(controlnet="union", image=""),))
    inputs = {job.id: some_conditions(1)}
    made = engine_images(recorder, [(0, job)], inputs=inputs, are_failing=True)
    assert "is told the mode of each picture" in str(made[job.id])
    assert MODES not in str(made[job.id])
