"""What edits and pictures to start from say beside their prompts is equal to stock."""

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

from core.request.prompt_syntax import PromptSyntax
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_scheduler
from worker.diffusion.runner import EditInputs, InitInputs

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

SECOND = {"prompt_2": "a star", "negative_prompt": "dark", "negative_prompt_2": "blurred"}
CASES = {
    "sd": [{"clip_skip": 1, "negative_prompt": "dark"}],
    "sdxl": [
        SECOND | {"clip_skip": 1},
        {"original_size": (48, 24), "crop": (4, 9), "target_size": (40, 56)},
        {"negative_original_size": (8, 16), "negative_target_size": (24, 8)},
    ],
}
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)
MASK = np.zeros((32, 32), np.uint8)
MASK[8:20, 4:24] = 255


@pytest.fixture(scope="module", params=CASES)
def served(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    model = {"sd": save_sd, "sdxl": save_sdxl}[request.param](folder)
    pipe = load_stock(folder)
    if request.param == "sd":  # where diffusers looks for its last norm
        object.__setattr__(pipe.text_encoder, "text_model", pipe.text_encoder)
    return CASES[request.param], load_recorder(folder, model), pipe


def stock(of, pipe, request, said, **more):
    editing = of.from_pipe(pipe)
    editing.scheduler = stock_scheduler(pipe.scheduler, None)
    editing.set_progress_bar_config(disable=True)
    names = {"crop": "crops_coords_top_left"}
    return editing(
        request.prompt,
        image=Image.fromarray(PICTURE),
        strength=0.8,
        num_inference_steps=request.steps,
        guidance_scale=request.guidance,
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
        **more,
        **{names.get(name, name): value for name, value in said.items()},
    ).images[0]


def test_edits_and_pictures_are_told_what_a_request_says(served):
    cases, recorder, pipe = served
    for at, said in enumerate(cases):
        job = a_job("j", model=recorder.model.name, seed=at, steps=5, **said)
        edit = EditInputs(template=PICTURE, mask=MASK, strength=0.8)
        begun = InitInputs(image=PICTURE, strength=0.8)
        mask = {"mask_image": Image.fromarray(MASK), "width": 32, "height": 32}
        edited = stock(diffusers.AutoPipelineForInpainting, pipe, job.request, said, **mask)
        varied = stock(diffusers.AutoPipelineForImage2Image, pipe, job.request, said)
        for brought, expected in ((edit, edited), (begun, varied)):
            [made] = engine_images(recorder, [(0, job)], inputs={"j": brought})["j"]
            assert difference(made, expected) < 1e-5, (said, type(brought))


def test_an_edit_reads_weighted_prompts_as_a_new_image_does(served):
    _, recorder, _ = served
    edit = EditInputs(template=PICTURE, mask=MASK, strength=0.8)
    model, weighted = recorder.model.name, PromptSyntax.WEIGHTED
    plain = a_job("plain", model=model, steps=5, prompt="a red circle")
    same = a_job("same", model=model, steps=5, prompt="a (red:1.0) circle", prompt_syntax=weighted)
    other = a_job("other", model=model, steps=5, prompt="(a BREAK b:2)", prompt_syntax=weighted)
    jobs = [(0, plain), (0, same), (1, other)]
    made = engine_images(recorder, jobs, inputs=dict.fromkeys(("plain", "same", "other"), edit))
    assert difference(made["plain"][0], made["same"][0]) < 1e-5
    assert difference(made["plain"][0], made["other"][0]) > 1e-3
