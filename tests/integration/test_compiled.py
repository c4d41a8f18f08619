"""Does a compiled model make the same images, by graphs that no ControlNet and no LoRA adds to?

Graphs are captured and guarded as on a GPU, and run without a compiler.
"""

from dataclasses import replace

import pytest
import torch
from diffusers import StableDiffusionXLControlNetPipeline

from core.job import Control, Task
from tests.compiled import STEPS, Graphs, Pair, an_image
from tests.control import ControlHouse
from tests.integration import test_control_joint as joint
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_request
from tests.loras import ATTENTION, CONVOLUTIONS
from tests.models import OF_DIFFUSERS, save_flux, save_sdxl
from worker.families.load import load
from worker.lora.mix import PLAIN

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),  # dynamo and what it traces warn a lot
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]

EDGES = Control(controlnet="edges", image="")
DEPTH = Control(controlnet="depth", image="", scale=0.6, end=0.7)

STEERED = {
    "none": ((), ()),
    "one": ((EDGES,), ()),
    "one for each": ((EDGES,), (DEPTH,)),
    "two for one": ((), (EDGES, DEPTH)),
    "none again": ((), ()),
}


class Counted:
    """A model that has been warmed up, so that it has all graphs that it needs."""

    def __init__(self, folder, model, load_controlnet=None):
        self.graphs = Graphs()
        self.pair = Pair(folder, model, load_controlnet=load_controlnet, backend=self.graphs)
        self.blocks = self.pair.compiled.regions.names
        self.pair.compiled.warm_up()
        self.needed = self.graphs.made
        assert self.blocks_run(an_image(0), an_image(1)) == len(self.blocks)

    def blocks_run(self, *asks):
        """Make the images of one batch; say how many blocks ran as graphs at each step."""
        before = self.graphs.runs
        assert self.pair.difference(*asks, after_call=self.graphs.overwrite) <= 1e-4
        return (self.graphs.runs - before) / STEPS


@pytest.fixture(autouse=True, scope="module")
def no_graphs_left():
    yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    house = ControlHouse(folder, save_sdxl, StableDiffusionXLControlNetPipeline)
    return Counted(folder / "base", house.model, house.load)


@pytest.fixture
def model(made):
    yield made
    assert made.graphs.made == made.needed, "graphs were added"


@pytest.mark.parametrize("controls", STEERED.values(), ids=STEERED)
def test_controlnets_join_between_the_graphs_of_images_without_any(model, controls):
    asks = [an_image(seed, controls=own) for seed, own in enumerate(controls)]
    assert model.blocks_run(*asks) == len(model.blocks)


def test_fewer_rows_run_by_the_graphs_of_their_bucket(model):
    assert model.blocks_run(an_image(guidance=1.0, controls=(EDGES,))) == len(model.blocks)


def test_loras_that_are_merged_run_by_the_graphs_of_the_model_without_any(model):
    mixes = [model.pair.a_mix("a", ATTENTION), model.pair.a_mix("b", CONVOLUTIONS), PLAIN]
    for mix in [*mixes, mixes[0]]:
        asks = [an_image(seed, mix) for seed in range(2)]
        assert model.blocks_run(*asks) == len(model.blocks)


def test_blocks_of_which_rows_have_their_own_loras_run_without_graphs(model):
    of_attention = model.pair.a_mix("a", ATTENTION)
    assert model.blocks_run(an_image(0), an_image(1, of_attention)) == resnets(model)
    of_all = model.pair.a_mix("b", ATTENTION + CONVOLUTIONS)
    assert model.blocks_run(an_image(0, of_all), an_image(1, of_attention)) == 0


def test_blocks_that_a_mask_cuts_run_without_graphs(model):
    ask = (a_request(task=Task.EDIT, edit=EDIT, steps=STEPS), 0, some_inputs(1), PLAIN)
    for what in ("records", "reuses"):
        assert model.blocks_run(ask) == resnets(model), what


def test_another_model_of_the_same_shape_shares_the_graphs(model, tmp_path):
    pair = Pair(tmp_path, save_sdxl(tmp_path), backend=model.graphs)
    for runner in (pair.plain, pair.compiled):
        for weight in runner.unet.parameters():
            weight.mul_(1.1)
    assert pair.difference(an_image(0), an_image(1)) <= 1e-4


def resnets(model):
    return sum("resnets" in block for block in model.blocks)


def test_controlnets_join_between_the_graphs_of_a_transformer(tmp_path):
    house = joint.House(tmp_path)
    model = Counted(tmp_path / "base", house.model, house.load)
    assert model.needed == 2, "blocks that are alike share a graph; the last one is not"
    for controls in [(EDGES,), (EDGES, replace(EDGES, scale=0.3)), ()]:
        assert model.blocks_run(*(an_image(at, controls=controls) for at in range(2))) == 3
    assert model.graphs.made == 2


def test_flux_is_compiled_too(tmp_path):
    model = Counted(tmp_path, save_flux(tmp_path))
    assert model.graphs.made == model.needed == 2


def test_a_copy_that_says_so_is_compiled_but_not_for_a_cpu(tmp_path):
    copy = replace(save_sdxl(tmp_path), is_compiled=True)
    assert load(tmp_path, copy, device="cpu", dtype="float32").regions is None
