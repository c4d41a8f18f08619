"""What a request says beside its prompt is equal to stock, alone and in a batch of strangers."""

import diffusers
import pytest
import torch

from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_scheduler

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

#: Family -> how its folder is made, and how near to stock its images are.
MODELS = {
    "sd": (save_sd, 1e-5),
    "sdxl": (save_sdxl, 1e-5),
    "sd3": (lambda folder: save_sd3(folder, has_t5=True), 1e-4),
    "flux": (save_flux, 1e-4),
}
SIZES = {"original_size": (48, 24), "crop": (4, 9), "target_size": (40, 56)}
NEGATIVE = {
    "negative_original_size": (8, 16),
    "negative_crop": (3, 1),
    "negative_target_size": (24, 8),
}
STOCK_NAMES = {"crop": "crops_coords_top_left", "negative_crop": "negative_crops_coords_top_left"}
SECOND = {"prompt_2": "a star", "negative_prompt": "dark", "negative_prompt_2": "blurred"}
CASES = [
    ("sd", {"clip_skip": 0}),
    ("sd", {"clip_skip": 1}),
    ("sd", {"clip_skip": 2, "negative_prompt": "dark"}),
    ("sdxl", {"clip_skip": 1, "negative_prompt": "dark"}),
    ("sdxl", {"clip_skip": 2, "guidance": 1.0}),
    ("sdxl", SECOND),
    ("sdxl", SIZES),
    ("sdxl", SIZES | NEGATIVE),
    ("sdxl", {"negative_original_size": (8, 16), "negative_target_size": (24, 8)}),
    ("sd3", {"clip_skip": 1}),
    ("sd3", SECOND | {"prompt_3": "a square", "negative_prompt_3": "wet"}),
    ("sd3", {"prompt_3": "a star of many colours, " * 10}),
    ("flux", {"prompt_2": "a star"}),
    ("flux", {"prompt_2": "a star of many colours, " * 20}),
]


@pytest.fixture(scope="module", params=MODELS)
def served(request, tmp_path_factory):
    save, bound = MODELS[request.param]
    folder = tmp_path_factory.mktemp("models") / request.param
    model = save(folder)
    pipe = load_stock(folder)
    if request.param == "sd":  # where diffusers looks for its last norm
        object.__setattr__(pipe.text_encoder, "text_model", pipe.text_encoder)
    return request.param, load_recorder(folder, model), pipe, bound


def stock(pipe, request, said):
    pipe.scheduler = stock_scheduler(pipe.scheduler, None)
    pipe.set_progress_bar_config(disable=True)
    more = {} if isinstance(pipe, diffusers.FluxPipeline) else {"negative_prompt": None}
    return pipe(
        request.prompt,
        width=request.width,
        height=request.height,
        num_inference_steps=request.steps,
        guidance_scale=said.get("guidance", request.guidance),
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
        **more | {STOCK_NAMES.get(n, n): v for n, v in said.items() if n != "guidance"},
    ).images[0]


def test_what_is_said_is_equal_to_stock_alone_and_among_strangers(served):
    family, recorder, pipe, bound = served
    said = [each for name, each in CASES if name == family]
    model = recorder.model.name
    alone, expected = [], []
    for at, each in enumerate([*said, {}]):
        job = a_job("j", model=model, seed=at, steps=3, **each)
        alone.append(engine_images(recorder, [(0, job)])["j"][0])
        expected.append(stock(pipe, a_request(seed=at, steps=3), each))
        assert difference(alone[-1], expected[-1]) < bound, each
    jobs = [
        (at, a_job(f"j{at}", at=float(at), model=model, seed=at, steps=3, **each))
        for at, each in enumerate([*said, {}])
    ]
    together = engine_images(recorder, jobs)
    assert all(difference(together[f"j{at}"][0], each) < bound for at, each in enumerate(expected))


def test_what_is_said_changes_what_the_model_is_told(served):
    family, recorder, *_ = served
    for said in (each for name, each in CASES if name == family and each != {"clip_skip": 0}):
        names, is_guided = {"guidance", "negative_prompt"}, said.get("guidance", 5.0) > 1
        shared = {name: value for name, value in said.items() if name in names}
        plain, told = (
            recorder.runner.condition(a_request(**each), is_guided) for each in (shared, said)
        )
        both = [(plain.text, told.text), *((plain.added[n], told.added[n]) for n in plain.added)]
        assert any(difference(a.detach(), b.detach()) > 1e-4 for a, b in both), said
