"""An edit that ControlNets steer is that of the stock ControlNet-inpaint pipeline."""

from dataclasses import replace

import pytest
import torch
from diffusers import (
    AutoPipelineForInpainting,
    StableDiffusionControlNetInpaintPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionXLControlNetInpaintPipeline,
    StableDiffusionXLControlNetPipeline,
)
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from catalog.masking.config import Keep, MaskingConfig
from core.job import Control, Edit, Quality, Task
from tests.cases import rarely_but
from tests.control import ControlHouse, some_conditions
from tests.integration.test_control_joint import House as JointHouse
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_parity import stock_edit as stock_joint
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, stock_image, stock_scheduler
from worker.control.server.model_cache import ModelCache
from worker.masking.activations import Activations

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

#: Rows of several images in one call: kernels add up in another order.
TOGETHER = 1e-5

EDIT = Edit(template="t/template.png", template_sha256="ab", mask="t/mask.png")
EDGES = Control(controlnet="edges", image="")
DEPTH = Control(controlnet="depth", image="", scale=1.5)
EARLY = Control(controlnet="edges", image="", end=0.5)
#: Acts at the first of six steps.
FIRST = Control(controlnet="edges", image="", end=0.17)
LATE = Control(controlnet="depth", image="", start=0.34, scale=0.7)

STOCK = {
    "sdxl": (
        save_sdxl,
        StableDiffusionXLControlNetPipeline,
        StableDiffusionXLControlNetInpaintPipeline,
    ),
    "sd": (save_sd, StableDiffusionControlNetPipeline, StableDiffusionControlNetInpaintPipeline),
}
#: Family, what steers, guidance, share of the schedule that is run.
CASES = {
    "one": ("sdxl", (EDGES,), 5.0, 1.0),
    "one, without guidance": ("sdxl", (DEPTH,), 1.0, 1.0),
    "parts of a part of the schedule": ("sdxl", (EARLY, LATE), 5.0, 0.6),
    "one, SD 1.5": ("sd", (EDGES,), 5.0, 1.0),
    "parts of a part of the schedule, SD 1.5": ("sd", (EARLY, LATE), 5.0, 0.6),
}


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    return {
        name: ControlHouse(tmp_path_factory.mktemp(name), save, plain)
        for name, (save, plain, _) in STOCK.items()
    }


@pytest.fixture
def house(houses):
    return houses["sdxl"]


def recorder_of(house, knobs=None):
    """One that reuses templates, as workers do."""
    recorder = house.recorder(LocalControlNets(ModelCache(house.load, 2**30)))
    recorder.runner.overlays.reuse(Activations(2**30), knobs or MaskingConfig())
    return recorder


def an_edit(house, name="j", **changes):
    of = {"edit": EDIT, "steps": 6, "seed": 3} | changes
    return a_job(name, model=house.model.name, task=Task.EDIT, **of)


def steered(inputs, count, seed=0):
    return replace(inputs, conditions=some_conditions(count, seed).images)


def make(recorder, job, inputs):
    return engine_images(recorder, [(0, job)], inputs={job.id: inputs})[job.id][0]


def stock_edit(family, house, request, inputs):
    """Edit by the stock pipeline alone. Shapes: [H, W, 3] in [0, 1]."""
    nets, controls = house.nets, request.controls
    one = len(controls) == 1
    pipe = STOCK[family][2](
        **house.pipe.components
        | {
            "controlnet": nets[controls[0].controlnet]
            if one
            else [nets[each.controlnet] for each in controls],
            "scheduler": stock_scheduler(house.pipe.scheduler, request.scheduler),
        }
    )
    pipe.set_progress_bar_config(disable=True)
    pictures = [Image.fromarray(picture) for picture in inputs.conditions]
    scales = [each.scale for each in controls]
    return pipe(
        request.prompt,
        image=Image.fromarray(inputs.template),
        mask_image=Image.fromarray(inputs.mask),
        control_image=pictures[0] if one else pictures,
        strength=inputs.strength,
        width=request.width,
        height=request.height,
        num_inference_steps=request.steps,
        guidance_scale=request.guidance,
        controlnet_conditioning_scale=scales[0] if one else scales,
        control_guidance_start=[each.start for each in controls],
        control_guidance_end=[each.end for each in controls],
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
    ).images[0]


@pytest.mark.parametrize(("family", "controls", "guidance", "strength"), CASES.values(), ids=CASES)
def test_an_edit_alone_is_the_stock_pipelines_to_the_bit(
    houses, family, controls, guidance, strength
):
    house = houses[family]
    recorder = recorder_of(house)
    job = an_edit(house, controls=controls, guidance=guidance, quality=Quality.EXACT)
    inputs = steered(some_inputs(1, strength=strength), len(controls))
    image = make(recorder, job, inputs)
    assert difference(image, stock_edit(family, house, job.request, inputs)) == 0
    without = an_edit(house, guidance=guidance, quality=Quality.EXACT)
    assert difference(image, make(recorder, without, inputs)) > 0.01


def test_edits_and_new_images_with_and_without_controlnets_share_a_batch(house):
    recorder = house.recorder(LocalControlNets(house.residents()))
    jobs = {
        "both": an_edit(house, "both", controls=(EDGES, DEPTH), seed=1),
        "edit": an_edit(house, "edit", seed=2),
        "steered": a_job("steered", model=house.model.name, controls=(LATE,), steps=5),
        "plain": a_job("plain", model=house.model.name, steps=4),
        "late": an_edit(house, "late", controls=(LATE,), guidance=1.0, seed=4),
    }
    inputs = {
        "both": steered(some_inputs(1), 2),
        "edit": some_inputs(2),
        "steered": some_conditions(1, 5),
        "late": steered(some_inputs(3, strength=0.7), 1, 6),
    }
    made = engine_images(recorder, list(enumerate(jobs.values())), inputs=inputs)
    assert max(recorder.batches) >= 4
    expected = {
        name: stock_edit("sdxl", house, jobs[name].request, inputs[name])
        for name in ("both", "late")
    } | {
        "steered": house.stock_image(jobs["steered"].request, inputs["steered"]),
        "plain": stock_image(house.pipe, house.pipe.scheduler, jobs["plain"].request),
        "edit": make(recorder, jobs["edit"], inputs["edit"]),
    }
    for name, image in expected.items():
        assert difference(made[name][0], image) <= TOGETHER, name


def test_an_edit_that_records_its_template_is_steered_and_the_template_is_not(house):
    recorder, other = recorder_of(house), recorder_of(house)
    plain, job = an_edit(house), an_edit(house, controls=(EDGES,))
    inputs = steered(some_inputs(1), 1)
    exact = make(recorder, an_edit(house, controls=(EDGES,), quality=Quality.EXACT), inputs)
    assert difference(make(recorder, job, inputs), exact) <= TOGETHER
    make(other, plain, some_inputs(1))
    [(key, left)], [(same, right)] = map(recordings, (recorder, other))
    assert key == same
    for at, blocks in left.steps.items():
        assert all(difference(*pair) < 1e-4 for pair in restored(blocks, right.steps[at]))


@pytest.mark.parametrize("crop", [False, True], ids=["blocks", "crops"])
def test_a_masked_edit_is_steered_under_its_mask_and_keeps_the_rest(house, crop):
    recorder = recorder_of(house, MaskingConfig(crop=crop, full_share=0.5))
    make(recorder, an_edit(house), some_inputs(2))  # leaves a recording, which nothing steered
    inputs = steered(some_inputs(1), 1)
    job = an_edit(house, controls=(EDGES,))
    exact = make(recorder, an_edit(house, controls=(EDGES,), quality=Quality.EXACT), inputs)
    sample = recorder.open(job.request, job.request.seed, inputs)
    assert sample.reuse is not None and not sample.is_recording
    sample.close()
    reused, unsteered = make(recorder, job, inputs), make(recorder, an_edit(house), inputs)
    assert difference(reused, unsteered) > 0.01
    near, far = (abs(exact - each).mean() for each in (reused, unsteered))
    assert near < far / 2
    assert near > 0


def test_an_edit_of_all_tokens_is_the_edit_in_full(house):
    recorder = recorder_of(house, MaskingConfig(dilate=99, full_share=0.0))
    make(recorder, an_edit(house), some_inputs(2))
    inputs, controls = steered(some_inputs(1), 2), (FIRST, replace(FIRST, controlnet="depth"))
    exact = make(recorder, an_edit(house, controls=controls, quality=Quality.EXACT), inputs)
    assert difference(make(recorder, an_edit(house, controls=controls), inputs), exact) <= TOGETHER


def test_at_every_second_masked_step_the_residuals_of_the_step_before_act_on(house):
    asked = []

    class Counted(LocalControlNets):
        def ask(self, asks):
            asked.extend(ask.position for ask in asks if ask.position not in asked)
            super().ask(asks)

    recorder = house.recorder(Counted(house.residents()))
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig(full_share=0.2))
    inputs = steered(some_inputs(1), 1)
    for quality, expected in {
        Quality.EXACT: range(9),  # nothing is left out
        Quality.AUTO: range(9),  # it records, and runs in full
    }.items():
        make(recorder, an_edit(house, controls=(EDGES,), steps=9, quality=quality), inputs)
        assert asked == [*expected]
        asked.clear()
    make(recorder, an_edit(house, controls=(EDGES,), steps=9), inputs)
    assert asked == [0, 2, 4, 5, 7]  # steps 0 and 5 run in full


def test_an_edit_that_has_come_without_its_conditions_says_so(house):
    job = an_edit(house, controls=(EDGES,))
    inputs = {job.id: some_inputs(1)}
    made = engine_images(recorder_of(house), [(0, job)], inputs=inputs, are_failing=True)
    assert "without the conditions" in str(made[job.id])


@pytest.mark.parametrize("keeps", rarely_but([Keep.OUTPUTS], Keep))
def test_an_edit_of_a_transformer_is_the_stock_inpaint_pipelines_with_residuals(tmp_path, keeps):
    """Stock has no such pipeline: its own for ControlNets and masks has ControlNets read them."""
    house = JointHouse(tmp_path, channels=16)
    recorder = recorder_of(house, MaskingConfig(keeps=keeps, full_share=0.5))
    inputs = steered(some_inputs(1), 1)
    job = an_edit(house, controls=(EDGES,), quality=Quality.EXACT)
    exact = make(recorder, job, inputs)
    expected = stock_joint_edit(house, job.request, inputs)
    assert difference(exact, expected) <= 1e-4
    make(recorder, an_edit(house), some_inputs(2))
    auto = an_edit(house, controls=(EDGES,))
    sample = recorder.open(auto.request, auto.request.seed, inputs)
    assert sample.reuse is not None and not sample.is_recording
    sample.close()
    reused, unsteered = (make(recorder, each, inputs) for each in (auto, an_edit(house)))
    near, far = (abs(exact - each).mean() for each in (reused, unsteered))
    assert 0 < near < far / 2


def stock_joint_edit(house, request, inputs):
    """Edit by the inpaint pipeline, whose transformer is given residuals at each of its calls."""
    pipe = AutoPipelineForInpainting.from_pipe(house.pipe)
    vae, net, whole = pipe.vae, house.nets["edges"], pipe.transformer.forward
    picture = torch.tensor(inputs.conditions[0]).permute(2, 0, 1)[None] / 127.5 - 1
    condition = vae.encode(picture).latent_dist.mode() * vae.config.scaling_factor

    def forward(hidden_states, **of):
        asked = {name: of[name] for name in ("timestep", "encoder_hidden_states")}
        residuals = net(
            hidden_states,
            controlnet_cond=condition.repeat(len(hidden_states), 1, 1, 1),
            pooled_projections=torch.zeros_like(of["pooled_projections"]),
            return_dict=False,
            **asked,
        )[0]
        return whole(hidden_states, block_controlnet_hidden_states=residuals, **of)

    pipe.transformer.forward = forward
    try:
        return stock_joint(pipe, house.pipe.scheduler, request, inputs)
    finally:
        pipe.transformer.forward = whole


def recordings(recorder):
    kept = recorder.runner.overlays._masking._activations._kept
    return [(key, recording) for key, (recording, _) in kept.items()]


def restored(left, right):
    assert left.keys() == right.keys()
    return [(left[name].restored(), right[name].restored()) for name in left]
