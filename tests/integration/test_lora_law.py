"""The law in half precision: what company does to an image with LoRAs."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from core.job import Quality
from tests.cases import rarely_but
from tests.integration.test_lora_parity import images, read
from tests.jobs import a_request
from tests.loras import ATTENTION, CONVOLUTIONS, factors, save_peft
from tests.models import OF_DIFFUSERS, save_sd3, save_sdxl
from tests.stock import difference
from worker.families.load import load
from worker.lora.mix import PLAIN, Mix

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

HAS_FLOAT16 = torch.ops.mkldnn._is_mkldnn_fp16_supported()

FAMILIES = {"sdxl": save_sdxl, "sd3": save_sd3}
#: Of an image in [0, 1], where it is merged alone and added row by row in company.
BOUNDS = {"bfloat16": 0.03, "float16": 0.004}
#: Of an image whose LoRAs are fixed, in any company. Where float16 is computed in software, as on a
#: CPU without it, sums depend on how many rows there are: one step of it from 0.5 to 1.
EXACT = {"bfloat16": 1e-5, "float16": 1e-5 if HAS_FLOAT16 else 2**-10}
CASES = rarely_but([(family, "bfloat16") for family in FAMILIES], product(FAMILIES, BOUNDS))


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    folders = {}

    @cache
    def house(family, dtype):
        if family not in folders:
            folder = tmp_path_factory.mktemp(family)
            folders[family] = folder, FAMILIES[family](folder)
        folder, model = folders[family]
        runner = load(folder, model, device="cpu", dtype=dtype)
        return runner, *(read(runner, path) for path in write(folder, runner))

    return house


def write(folder, runner):
    shapes, parts = runner.overlays.adapters.shapes, {"unet", "transformer"}
    for seed, ends in enumerate(((*ATTENTION, *CONVOLUTIONS, "norm1.linear"), ATTENTION)):
        drawn = factors(shapes, ends, seed=seed, parts=parts, rank=4 + seed)
        yield save_peft(folder / f"{seed}.safetensors", drawn)


def alone_and_in_company(house, *, is_fixed):
    runner, one, two = house
    request = a_request(negative_prompt="bad", steps=3)
    if is_fixed:
        request = replace(request, quality=Quality.EXACT)
    mix = Mix.of([(one, 0.8)], is_fixed=is_fixed)
    other = Mix.of([(two, 1.0), (one, 0.3)])
    strangers = [
        (a_request(prompt="a", seed=3, steps=3), other),
        (a_request(prompt="b", seed=4, steps=3, guidance=1.0), PLAIN),
        (a_request(prompt="c", seed=5, steps=3), Mix.of([(one, 0.8)])),
    ]
    (alone,) = images(runner, (request, mix))
    companies = [images(runner, (request, mix), *strangers[at:])[0] for at in range(3)]
    return alone, companies


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_an_exact_image_is_the_same_in_any_company(houses, family, dtype):
    alone, companies = alone_and_in_company(houses(family, dtype), is_fixed=True)
    for company in companies:
        assert difference(alone, company) <= EXACT[dtype]


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_another_image_moves_with_company_no_further_than_rounding_moves_it(houses, family, dtype):
    alone, companies = alone_and_in_company(houses(family, dtype), is_fixed=False)
    true, _ = alone_and_in_company(houses(family, "float32"), is_fixed=False)
    rounding = np.abs(alone.astype(float) - true).mean()
    for company in companies:
        assert difference(alone, company) <= BOUNDS[dtype]
        assert np.abs(company.astype(float) - true).mean() <= 1.5 * rounding
