"""Is an image of the engine the image of the stock pipeline run alone?"""

from functools import cache

import pytest

from core.family import FLOW_SAMPLERS, SAMPLERS
from tests.cases import rarely, rarely_but
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_image

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOLERANCE = 1e-4

#: Step of arrival and request: other steps, guidance, sizes and prompts in one running batch.
ARRIVALS = [
    (0, {"prompt": "a cat", "negative_prompt": "bad", "steps": 7, "guidance": 5.0, "seed": 1}),
    (2, {"prompt": "a red dog on a hill", "steps": 5, "guidance": 7.5, "seed": 2}),
    (3, {"prompt": "no guidance", "steps": 3, "guidance": 1.0, "seed": 3}),
    (1, {"prompt": "other size", "negative_prompt": "", "steps": 4, "guidance": 3.0, "seed": 4,
         "height": 48, "width": 32}),
    (5, {"prompt": "late", "negative_prompt": "blurry", "steps": 8, "guidance": 9.0, "seed": 5}),
]  # fmt: skip

#: One of a kind: of one call a step, of two, that draws noise, that remembers steps.
QUICK = ("euler", "heun", "euler-ancestral", "unipc")

FAMILIES = {
    "sdxl": (save_sdxl, {}),
    "sd15": (save_sd, {}),
    "sd2-velocity": (save_sd, {"prediction_type": "v_prediction"}),
    "sd-guidance-embedding": (save_sd, {"time_cond_dim": 8}),
    "sd3": (save_sd3, {}),
    "sd3-t5": (save_sd3, {"has_t5": True}),
    "sd3-many-tokens": (save_sd3, {"sample_size": 32}),
    "sd3.5": (save_sd3, {"qk_norm": "rms_norm", "dual_attention_layers": (0, 1)}),
    "flux-dev": (save_flux, {}),
    "flux-schnell": (save_flux, {"shift": False, "guidance_embeds": False}),
}

#: All samplers on the three main families, each in a batch of them all too
#: (`test_samplers_do_not_mix`); the variants differ in what the UNet takes and means.
CASES = [
    *rarely_but([("sd15", s) for s in (None, *QUICK)], [("sd15", s) for s in SAMPLERS]),
    *rarely_but([("sdxl", None)], [("sdxl", s) for s in SAMPLERS]),
    *((family, None) for family in ("sd2-velocity", "sd-guidance-embedding")),
    *rarely((family, "euler") for family in ("sd2-velocity", "sd-guidance-embedding")),
    *rarely_but([("sd3", s) for s in (None, "heun")], [("sd3", s) for s in FLOW_SAMPLERS]),
    *((family, None) for family in ("sd3-t5", "sd3.5", "flux-dev")),
    *rarely((family, None) for family in ("sd3-many-tokens", "flux-schnell")),
]  # fmt: skip

table = {}


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """Each is loaded once, in whatever order the cases come."""

    @cache
    def load(name):
        save, options = FAMILIES[name]
        folder = tmp_path_factory.mktemp(name)
        model = save(folder, **options)
        pipe = load_stock(folder)
        pipe.set_progress_bar_config(disable=True)
        return name, model, pipe, pipe.scheduler, load_recorder(folder, model)

    return load


@pytest.fixture
def family(request, families):
    return families(request.param)


@pytest.fixture(scope="module", autouse=True)
def print_table(pytestconfig):
    yield
    lines = [f"{name:24} {sampler:16} {worst:.1e}" for (name, sampler), worst in table.items()]
    text = "\n".join(["", "max |image difference| to the stock pipeline alone", *lines, ""])
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        pytestconfig.get_terminal_writer().write(text)


def compare(family, sampler, arrivals):
    name, model, pipe, own_scheduler, recorder = family
    jobs = [
        (at, a_job(f"j{i}", at=float(i), model=model.name, scheduler=sampler, **changes))
        for i, (at, changes) in enumerate(arrivals)
    ]
    recorder.batches.clear()
    made = engine_images(recorder, jobs)
    worst = max(
        difference(made[job.id][0], stock_image(pipe, own_scheduler, job.request))
        for _, job in jobs
    )
    table[name, sampler or "own"] = worst
    assert difference(made["j0"][0], made["j1"][0]) > 0.1, "the comparison sees nothing"
    assert max(recorder.batches) > 1
    return worst


@pytest.mark.parametrize(("family", "sampler"), CASES, indirect=["family"])
def test_an_image_is_the_stock_pipelines_image(family, sampler):
    assert compare(family, sampler, ARRIVALS) <= TOLERANCE


@pytest.mark.parametrize("family", rarely_but(["sdxl", "sd3"], FAMILIES), indirect=True)
def test_samplers_do_not_mix_in_one_batch(family):
    _, model, pipe, own_scheduler, recorder = family
    jobs = [
        (i, a_job(f"j{i}", at=float(i), model=model.name, scheduler=sampler, steps=5, seed=i))
        for i, sampler in enumerate(model.samplers)
    ]
    made = engine_images(recorder, jobs)
    for _, job in jobs:
        expected = stock_image(pipe, own_scheduler, job.request)
        assert difference(made[job.id][0], expected) <= TOLERANCE, job.request.scheduler


@pytest.mark.parametrize("family", rarely_but(["sdxl", "flux-dev"], FAMILIES), indirect=True)
def test_image_i_of_a_job_is_the_image_of_seed_plus_i(family):
    _, model, pipe, own_scheduler, recorder = family
    job = a_job("j", model=model.name, n=3, seed=40)
    images = engine_images(recorder, [(0, job)])["j"]
    for i, image in enumerate(images):
        alone = a_job("k", model=model.name, seed=40 + i).request
        assert difference(image, stock_image(pipe, own_scheduler, alone)) <= TOLERANCE
