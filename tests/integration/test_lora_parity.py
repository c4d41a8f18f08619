"""Is an image with LoRAs that of the stock pipeline with peft, alone?"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from catalog.lora.parse import parse
from catalog.masking.config import MaskingConfig
from core.job import Task
from core.uploads.lora import AppliedLora
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_request
from tests.loras import (
    ATTENTION,
    CONVOLUTIONS,
    TEXT,
    as_bytes,
    factors,
    save_kohya,
    save_old,
    save_peft,
)
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, load_stock, stock_image
from worker.diffusion.stock import Pipe
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.lora.mix import PLAIN, Lora, Mix
from worker.masking.activations import Activations

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute:UserWarning"),
]

TOLERANCE = 1e-5

FAMILIES = {"sdxl": save_sdxl, "sd15": save_sd}


@dataclass(frozen=True, kw_only=True)
class House:
    """A model's runner, the stock pipeline of the same folder, and LoRA files for both."""

    runner: DiffusionRunner
    pipe: Pipe
    folder: Path
    files: dict[str, Path]  #: by the kind of layer they change


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    return cache(lambda family: open_house(family, tmp_path_factory.mktemp(family)))


@pytest.fixture
def house(houses):
    return houses("sdxl")


def open_house(family, folder):
    model = FAMILIES[family](folder)
    pipe = load_stock(folder)
    pipe.set_progress_bar_config(disable=True)
    runner = load(folder, model, device="cpu", dtype="float32")
    return House(runner=runner, pipe=pipe, folder=folder, files=write(folder, runner))


def write(folder, runner):
    shapes = runner.overlays.adapters.shapes
    attention, text = factors(shapes, ATTENTION, seed=1), factors(shapes, TEXT, seed=2)
    convolutions = factors(shapes, CONVOLUTIONS, seed=3)
    # Stock diffusers gets mixed alphas wrong, so these are all the same.
    alphas = dict.fromkeys(convolutions, 2.0)
    return {
        "attention": save_peft(folder / "attention.safetensors", attention),
        "old": save_old(folder / "old.safetensors", attention),
        "text": save_peft(folder / "text.safetensors", text | attention),
        "convolutions": save_kohya(folder / "conv.safetensors", convolutions, alphas),
    }


def read(runner, path):
    data = path.read_bytes()
    return Lora.of(path.stem, as_bytes(data), parse(data, runner.overlays.adapters.shapes))


def images(runner, *made):
    """Make images in one batch: (request, mix, inputs) of each. Shapes: each [H, W, 3]."""
    samples = [
        runner.begin(request, request.seed, *(inputs or [None]), mix)
        for request, mix, *inputs in made
    ]
    for _ in range(samples[0].num_steps):
        runner.advance(samples, runner.forward(samples))
    return [runner.image(sample).numpy() for sample in samples]


def stock(pipe, request, uses):
    for i, (path, _) in enumerate(uses):
        pipe.load_lora_weights(path.parent, weight_name=path.name, adapter_name=f"a{i}")
    pipe.set_adapters([f"a{i}" for i in range(len(uses))], [scale for _, scale in uses])
    made = stock_image(pipe, pipe.scheduler, request)
    pipe.unload_lora_weights()
    return made


CASES = {
    "one": [("attention", 1.0)],
    "older names": [("old", 1.0)],
    "two with scales": [("attention", 0.7), ("convolutions", 0.4)],
    "text encoders": [("text", 0.8)],
    "convolutions": [("convolutions", 1.0)],
}


@pytest.mark.parametrize(
    ("family", "case"),
    [*(("sdxl", case) for case in CASES), ("sd15", "two with scales"), ("sd15", "text encoders")],
)
def test_an_image_with_loras_is_the_stock_pipelines_image(houses, family, case):
    house = houses(family)
    runner, uses = house.runner, [(house.files[name], scale) for name, scale in CASES[case]]
    mix = Mix.of([(read(runner, path), scale) for path, scale in uses])
    request = a_request(negative_prompt="bad", steps=2)
    ours, plain = images(runner, (request, mix)) + images(runner, (request, PLAIN))
    assert difference(ours, stock(house.pipe, request, uses)) <= TOLERANCE
    assert difference(ours, plain) > 0.01, "the comparison sees nothing"
    assert np.array_equal(plain, images(runner, (request, PLAIN))[0])


def test_rows_with_other_loras_are_as_each_merged_alone(house):
    runner, files = house.runner, house.files
    one, two, three = (read(runner, files[n]) for n in ("attention", "text", "convolutions"))
    mixes = [
        Mix.of([(one, 1.0)]),
        PLAIN,
        Mix.of([(two, 0.7)]),
        Mix.of([(one, 0.5), (three, 0.5)]),
        PLAIN,
    ]
    asked = [
        (a_request(prompt=f"a cat {i}", seed=i, guidance=1.0 if i == 2 else 4.0), mix)
        for i, mix in enumerate(mixes)
    ]
    together = images(runner, *asked)
    for image, alone in zip(together, asked, strict=True):
        assert difference(image, images(runner, alone)[0]) <= TOLERANCE


def test_edits_under_masks_share_a_batch_with_other_loras_and_stay_themselves(house):
    runner, files = house.runner, house.files
    masked = load(house.folder, runner.model, device="cpu", dtype="float32")
    masked.overlays.reuse(Activations(2**30), MaskingConfig(full_share=0.0))
    mix = Mix.of([(read(runner, files["text"]), 1.0)])
    edit = a_request(edit=EDIT, task=Task.EDIT, prompt="an edit", steps=2)
    uses = tuple(
        AppliedLora(id=id, key="k", models=(), size_bytes=1, sha256="ab", scale=scale)
        for id, scale in mix.key
    )
    with_lora = replace(edit, loras=uses)
    assert masked.begin(with_lora, 0, some_inputs(1), PLAIN).reuse is None, "they are on their way"
    images(masked, (with_lora, mix, some_inputs(1)))
    assert masked.open(edit, 0, some_inputs(2)).reuse.is_recording, "it was made with LoRAs"
    images(masked, (edit, PLAIN, some_inputs(1)))
    new = a_request(prompt="no edit", steps=2)
    asked = [
        (with_lora, mix, some_inputs(2)),
        (new, mix),
        (replace(edit, prompt="another"), PLAIN, some_inputs(3)),
    ]
    assert not masked.begin(with_lora, 0, some_inputs(2), mix).reuse.is_recording
    for image, alone in zip(images(masked, *asked), asked, strict=True):
        assert difference(image, images(masked, alone)[0]) <= TOLERANCE


def test_loras_that_come_late_act_from_the_next_step(house):
    runner, files = house.runner, house.files
    mix = Mix.of([(read(runner, files["text"]), 1.0)])
    request = a_request(steps=4)
    early, late = runner.begin(request, 0, None, mix), runner.open(request, 0)
    runner.advance([late], runner.forward([late]))
    runner.adapt(late, request, mix)
    assert torch.equal(late.conditioning.text, early.conditioning.text)
    early.row, early.sampler = late.row, late.sampler
    assert difference(*(runner.forward([sample])[0] for sample in (early, late))) == 0
