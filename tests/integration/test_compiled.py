"""Does a compiled model make the same images, by graphs that no ControlNet and no LoRA adds to?

Graphs are captured and guarded as on a GPU, and run without a compiler.
"""

from dataclasses import replace

import pytest
import torch
from diffusers import StableDiffusionXLControlNetPipeline

from core.job import Control, Task
from tests.control import ControlHouse, some_conditions
from tests.graphs import Graphs
from tests.integration import test_control_joint as joint
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_request
from tests.loras import ATTENTION, CONVOLUTIONS, factors
from tests.models import OF_DIFFUSERS, save_flux, save_sdxl
from tests.stock import difference
from worker.control.local import LocalControlNets
from worker.control.residents import Residents
from worker.lora.mix import PLAIN, Lora, Mix, Product
from worker.masking.activations import Activations
from worker.masking.knobs import Knobs
from worker.pipeline import load

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # dynamo and what it traces warn a lot
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]

STEPS = 3
EDGES = Control(controlnet="edges", image="")
DEPTH = Control(controlnet="depth", image="", scale=0.6, end=0.7)


class Pair:
    """One model twice: as it is, and compiled for batches of four rows."""

    def __init__(self, folder, model, load_controlnet=None):
        self.graphs = Graphs()
        self.plain, self.compiled = (
            load(folder, model, device="cpu", dtype="float32") for _ in range(2)
        )
        self.compiled.compile(buckets=(4,), backend=self.graphs)
        self.blocks = self.compiled.regions.names
        for runner in (self.plain, self.compiled):
            runner.overlays.reuse(Activations(2**30), Knobs())
            if load_controlnet is not None:
                runner.overlays.steer(LocalControlNets(Residents(load_controlnet, 2**30)))
        rows = 2 if model.is_guided(5.0) else 1
        assert self.assert_alike(*map(an_image, range(4 // rows))) == len(self.blocks)
        self.made = self.graphs.made  #: graphs of images without anything

    def assert_alike(self, *asks):
        """Make the images of one batch by both; return how many blocks ran as graphs."""
        expected, before = self.make(self.plain, asks), self.graphs.runs
        for image, wanted in zip(self.make(self.compiled, asks), expected, strict=True):
            assert difference(image, wanted) <= 1e-4
        return (self.graphs.runs - before) / STEPS

    def make(self, runner, asks):
        samples = [runner.begin(*ask) for ask in asks]
        for _ in range(STEPS):
            made = runner.forward(samples)
            self.graphs.overwrite()
            for sample, prediction in zip(samples, made, strict=True):
                runner.advance(sample, prediction)
        return [runner.image(sample) for sample in samples]


@pytest.fixture(autouse=True, scope="module")
def no_graphs_left():
    yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    house = ControlHouse(folder, save_sdxl, StableDiffusionXLControlNetPipeline)
    return Pair(folder / "base", house.model, house.load)


def an_image(seed=0, mix=PLAIN, **changes):
    request = a_request(seed=seed, steps=STEPS, **changes)
    brought = some_conditions(len(request.controls), seed) if request.controls else None
    return request, seed, brought, mix


def a_mix(pair, name, ends, strength=1.0):
    drawn = factors(pair.plain.overlays.adapters.shapes, ends, parts=("unet",))
    products = {at: Product(down, up.flatten(1), 1.0) for at, (down, up) in drawn.items()}
    return Mix.of([(Lora(name, products), strength)])


STEERED = {
    "one": ((EDGES,), ()),
    "one for each": ((EDGES,), (DEPTH,)),
    "two for one": ((), (EDGES, DEPTH)),
    "none again": ((), ()),
}


@pytest.mark.parametrize("controls", STEERED.values(), ids=STEERED)
def test_controlnets_join_between_the_graphs_of_images_without_any(pair, controls):
    asks = [an_image(seed, controls=own) for seed, own in enumerate(controls)]
    assert pair.assert_alike(*asks) == len(pair.blocks)
    assert pair.graphs.made == pair.made


def test_fewer_rows_run_by_the_graphs_of_their_bucket(pair):
    assert pair.assert_alike(an_image(guidance=1.0, controls=(EDGES,))) == len(pair.blocks)
    assert pair.graphs.made == pair.made


def test_loras_that_are_merged_run_by_the_graphs_of_the_model_without_any(pair):
    mixes = [a_mix(pair, "a", ATTENTION), a_mix(pair, "b", CONVOLUTIONS), PLAIN]
    for mix in [*mixes, mixes[0]]:
        asks = [an_image(seed, mix) for seed in range(2)]
        assert pair.assert_alike(*asks) == len(pair.blocks)
    assert pair.graphs.made == pair.made


def test_blocks_of_which_rows_have_their_own_loras_run_without_graphs(pair):
    of_attention = a_mix(pair, "a", ATTENTION)
    assert pair.assert_alike(an_image(0), an_image(1, of_attention)) == resnets(pair)
    of_all = a_mix(pair, "b", ATTENTION + CONVOLUTIONS)
    assert pair.assert_alike(an_image(0, of_all), an_image(1, of_attention)) == 0
    assert pair.graphs.made == pair.made


def test_blocks_that_a_mask_cuts_run_without_graphs(pair):
    ask = (a_request(task=Task.EDIT, edit=EDIT, steps=STEPS), 0, some_inputs(1), PLAIN)
    for what in ("records", "reuses"):
        assert pair.assert_alike(ask) == resnets(pair), what
    assert pair.graphs.made == pair.made


def resnets(pair):
    return sum("resnets" in block for block in pair.blocks)


def test_controlnets_join_between_the_graphs_of_a_transformer(tmp_path):
    house = joint.House(tmp_path)
    pair = Pair(tmp_path / "base", house.model, house.load)
    assert pair.made == 2, "blocks that are alike share a graph; the last one is not"
    for controls in [(EDGES,), (EDGES, replace(EDGES, scale=0.3)), ()]:
        assert pair.assert_alike(*(an_image(at, controls=controls) for at in range(2))) == 3
    assert pair.graphs.made == 2


def test_flux_is_compiled_too(tmp_path):
    assert Pair(tmp_path, save_flux(tmp_path)).made == 2


def test_a_copy_that_says_so_is_compiled_but_not_for_a_cpu(tmp_path):
    copy = replace(save_sdxl(tmp_path), is_compiled=True)
    assert load(tmp_path, copy, device="cpu", dtype="float32").regions is None
