"""Does a compiled model make the same images on CUDA, replayed or not?"""

import re
from dataclasses import replace

import pytest
import torch
from diffusers import StableDiffusionXLControlNetPipeline
from diffusers.models.activations import GEGLU
from torch._inductor.utils import run_and_get_code

from core.job import Control
from tests.compiled import Pair, an_image, make
from tests.control import ControlHouse
from tests.jobs import a_request
from tests.loras import ATTENTION
from tests.models import OF_DIFFUSERS, save_flux, save_sd3, save_sdxl
from worker.control.server.load_network import load_network
from worker.diffusion.stock import ResnetBlock
from worker.families.load import load
from worker.lora.mix import PLAIN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore"),  # the compiler warns a lot
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]

EDGES = Control(controlnet="edges", image="")

#: As images of float32 on one device by other kernels.
LIMIT = 1e-3


@pytest.fixture(autouse=True)
def no_graphs_left():
    yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    return ControlHouse(folder, save_sdxl, StableDiffusionXLControlNetPipeline)


@pytest.fixture
def pair(house, device, compiling):
    def load_controlnet(name):
        return load_network(house.folder / name, device=device, dtype="float32")

    return Pair(
        house.folder / "base",
        house.model,
        load_controlnet=load_controlnet,
        device=device,
        **compiling,
    )


def test_controlnets_and_loras_come_and_go_and_no_graph_is_added(pair):
    lora = pair.a_mix("a", ATTENTION)
    batches = [
        [an_image(0), an_image(1)],
        [an_image(0, controls=(EDGES,)), an_image(1)],
        [an_image(0, lora), an_image(1, lora)],
        [an_image(0), an_image(1, lora)],
        [an_image(0, PLAIN), an_image(1, controls=(EDGES,) * 2)],
    ]
    graphs = set()
    for _ in range(3):  # the passes of the first batch are replayed from its second step on
        for batch in batches:
            assert pair.difference(*batch) <= LIMIT
            graphs.add(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert len(graphs) == 1


def test_a_prediction_outlives_the_steps_after_it(pair):
    ours = [pair.compiled.begin(*an_image(seed)) for seed in range(2)]
    for _ in range(4):
        pair.compiled.forward(ours)
    [first, _] = pair.compiled.forward(ours)
    kept = first.clone()
    others = [pair.compiled.begin(*an_image(seed)) for seed in (5, 6)]
    for _ in range(3):
        pair.compiled.forward(others)
    assert torch.equal(first, kept)


@pytest.mark.parametrize("save", [save_sd3, save_flux])
def test_transformers_are_compiled_too(tmp_path, save, device, compiling):
    pair = Pair(tmp_path, save(tmp_path), device=device, **compiling)
    for _ in range(3):
        assert pair.difference(an_image(0), an_image(1)) <= LIMIT


@pytest.mark.asks_cuda
def test_a_copy_that_says_so_is_compiled_and_its_steps_never_make_the_host_wait(tmp_path, no_wait):
    copy = replace(save_sdxl(tmp_path), is_compiled=True)
    runner = load(tmp_path, copy, device="cuda", dtype="float16")
    runner.warm_up()
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    make(runner, [an_image(0)])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs > 0
    sample = runner.open(a_request(steps=6), 0)
    with no_wait():
        for _ in range(5):
            runner.advance([sample], runner.forward([sample]))


@pytest.mark.asks_cuda
def test_norm_and_activation_are_one_kernel_and_so_is_geglu():
    resnet = ResnetBlock(in_channels=64, temb_channels=128, groups=32)
    kernels = kernels_of(resnet, torch.randn(2, 64, 32, 32), torch.randn(2, 128))
    assert sum("group_norm" in name and "silu" in name for name in kernels) >= 2
    kernels = kernels_of(GEGLU(64, 256), torch.randn(2, 256, 64))
    assert len(kernels) == 1 and "gelu" in kernels.pop()


def kernels_of(module, *given):
    """Compile a module; name the kernels that were made for it."""
    module = module.eval().requires_grad_(False).half().cuda()
    with torch.inference_mode():
        compiled = torch.compile(module, dynamic=False)
        _, code = run_and_get_code(compiled, *(each.half().cuda() for each in given))
    return set(re.findall(r"triton_\w+_fused_\w+", code[0]))
