"""An image that ControlNets steer through Flux is that of the stock pipelines."""

import pytest
import torch
from diffusers import (
    FluxControlNetInpaintPipeline,
    FluxControlNetModel,
    FluxControlNetPipeline,
    FluxMultiControlNetModel,
)
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from catalog.controlnet.manifest import find_config, read_encoder, read_tensors
from catalog.masking.config import MaskingConfig
from core.errors import BadWeights
from core.job import Control, Edit, Quality, Task
from tests.control import some_conditions
from tests.integration.test_edit_control import steered
from tests.integration.test_edit_parity import some_inputs
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_scheduler
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.masking.activations import Activations

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.filterwarnings("ignore:`FluxPosEmbed` is deprecated:FutureWarning"),
]

LIMIT = 1e-4
#: Of both kinds of blocks, fewer than the transformer has.
EDGES = Control(controlnet="edges", image="")
#: Of the first kind alone, and is not told the guidance.
DEPTH = Control(controlnet="depth", image="", scale=0.6)
EARLY = Control(controlnet="edges", image="", end=0.5)
POSE = Control(controlnet="union", image="", mode=4)
WEAK = Control(controlnet="union", image="", mode=1, scale=0.4, start=0.4)

CASES = {
    "one": (EDGES,),
    "one of the first kind of blocks": (DEPTH,),
    "a part of the schedule": (EARLY,),
    "two of one": (EDGES, Control(controlnet="edges", image="", scale=0.4)),
    "a Union": (POSE,),
    "two modes of a Union": (POSE, WEAK),
}
PARTS = ["vae", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "transformer"]
SIZES = {
    "edges": {"num_layers": 2, "num_single_layers": 1},
    "depth": {"num_layers": 1, "num_single_layers": 0, "guidance_embeds": False},
    "union": {"num_layers": 1, "num_single_layers": 2, "num_mode": 6},
}


class House:
    """A tiny Flux, and three ControlNets of it."""

    def __init__(self, folder):
        self.folder = folder
        self.model = save_flux(folder / "base", num_layers=3, num_single_layers=3)
        self.pipe = load_stock(folder / "base")
        self.nets = {}
        for seed, (name, size) in enumerate(SIZES.items()):
            self.save(name, seed, size)
            self.nets[name] = FluxControlNetModel.from_pretrained(folder / name)

    def save(self, name, seed, size):
        torch.manual_seed(60 + seed)
        config = {n: of for n, of in self.pipe.transformer.config.items() if n[0] != "_"}
        net = FluxControlNetModel.from_config(config | size)
        for weight in net.parameters():
            torch.nn.init.normal_(weight, std=0.1)
        net.save_pretrained(self.folder / name)

    def recorder(self):
        recorder = load_recorder(self.folder / "base", self.model)
        recorder.runner.overlays.steer(LocalControlNets(ModelCache(self.load, 2**30)))
        return recorder

    def load(self, name):
        return load_network(self.folder / name, device="cpu", dtype="float32")

    def stock(self, stock_class, job, conditions, **more):
        request, controls = job.request, job.request.controls
        names = list(dict.fromkeys(control.controlnet for control in controls))
        nets = [self.nets[name] for name in names]
        is_one = len(controls) == 1
        pipe = stock_class(
            **{name: self.pipe.components[name] for name in PARTS}
            | {
                "controlnet": nets[0] if is_one else FluxMultiControlNetModel(nets),
                "scheduler": stock_scheduler(self.pipe.scheduler, request.scheduler),
            }
        )
        pipe.set_progress_bar_config(disable=True)
        images = [Image.fromarray(pixels) for pixels in conditions]
        scales, modes = [c.scale for c in controls], [c.mode for c in controls]
        return pipe(
            request.prompt,
            control_image=images[0] if is_one else images,
            control_mode=modes[0] if is_one else modes,
            controlnet_conditioning_scale=scales[0] if is_one else scales,
            control_guidance_start=[c.start for c in controls],
            control_guidance_end=[c.end for c in controls],
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
            **more,
        ).images[0]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return House(tmp_path_factory.mktemp("flux"))


@pytest.fixture(scope="module")
def recorder(house):
    return house.recorder()


def make(recorder, job, inputs):
    return engine_images(recorder, [(0, job)], inputs={job.id: inputs})[job.id][0]


@pytest.mark.parametrize("controls", CASES.values(), ids=CASES)
def test_a_steered_image_is_the_stock_pipelines(house, recorder, controls):
    job = a_job(model=house.model.name, controls=controls)
    conditions = some_conditions(len(controls))
    image = make(recorder, job, conditions)
    assert difference(image, house.stock(FluxControlNetPipeline, job, conditions.images)) <= LIMIT
    without = a_job(model=house.model.name)
    assert difference(image, make(recorder, without, None)) > 10 * LIMIT


def test_images_with_and_without_controlnets_share_a_batch(house, recorder):
    several = [(EDGES,), (), (DEPTH, EDGES), (POSE,), (WEAK,), ()]
    jobs = [
        a_job(f"j{i}", at=float(i), model=house.model.name, seed=i, steps=3 + i % 3, controls=of)
        for i, of in enumerate(several)
    ]
    brought = {job.id: some_conditions(len(job.request.controls), i) for i, job in enumerate(jobs)}
    recorder.batches.clear()
    made = engine_images(recorder, list(enumerate(jobs)), inputs=brought)
    assert max(recorder.batches) >= 3
    for job in jobs:
        assert difference(made[job.id][0], make(recorder, job, brought[job.id])) <= LIMIT


def an_edit(house, **changes):
    edit = Edit(template="t/template.png", template_sha256="ab", mask="t/mask.png")
    return a_job(model=house.model.name, task=Task.EDIT, edit=edit, steps=5, **changes)


def test_an_edit_is_the_stock_pipelines(house, recorder):
    job = an_edit(house, controls=(EDGES,), quality=Quality.EXACT)
    inputs = steered(some_inputs(1), 1)
    expected = house.stock(
        FluxControlNetInpaintPipeline,
        job,
        inputs.conditions,
        image=Image.fromarray(inputs.template),
        mask_image=Image.fromarray(inputs.mask),
        strength=1.0,
    )
    assert difference(make(recorder, job, inputs), expected) <= LIMIT


def test_a_masked_edit_is_steered_and_its_template_is_not(house):
    recorder = house.recorder()
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig(full_share=0.5))
    inputs = steered(some_inputs(1), 1)
    job, of = an_edit(house, controls=(EDGES,)), {"controls": (EDGES,), "quality": Quality.EXACT}
    exact = make(recorder, an_edit(house, **of), inputs)
    assert difference(make(recorder, job, inputs), exact) <= LIMIT  # it records beside itself
    sample = recorder.open(job.request, job.request.seed, inputs)
    assert sample.reuse is not None and not sample.is_recording
    sample.close()
    reused, unsteered = (make(recorder, each, inputs) for each in (job, an_edit(house)))
    assert 0 < abs(exact - reused).mean() < abs(exact - unsteered).mean() / 2


@pytest.mark.parametrize("name", SIZES)
def test_its_config_follows_from_its_weights(house, name):
    data = (house.folder / name / "diffusion_pytorch_model.safetensors").read_bytes()
    config = find_config(read_tensors(data, len(data)), read_encoder(house.folder / "base"))
    own = house.nets[name].config
    assert {n: own[n] for n in config if n[0] != "_"} == {
        n: tuple(of) if isinstance(own[n], tuple) else of for n, of in config.items() if n[0] != "_"
    }
    FluxControlNetModel.from_config(config).load_state_dict(house.nets[name].state_dict())


def test_what_is_not_served_says_why(house, recorder):
    house.save("pixels", 9, SIZES["edges"] | {"conditioning_embedding_channels": 16})
    with pytest.raises(BadWeights, match="reads pixels"):
        house.load("pixels")
    data = (house.folder / "pixels/diffusion_pytorch_model.safetensors").read_bytes()
    with pytest.raises(BadWeights, match="use one that reads latents"):
        find_config(read_tensors(data, len(data)), read_encoder(house.folder / "base"))
    job = a_job(model=house.model.name, controls=(Control(controlnet="union", image=""),))
    inputs = {job.id: some_conditions(1)}
    made = engine_images(recorder, [(0, job)], inputs=inputs, are_failing=True)
    assert "is told the mode of its picture" in str(made[job.id])
