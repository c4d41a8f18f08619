"""Layers that run by kernels, which torch's own functions stand for here."""

import pytest
import torch
from torch.nn import functional

from tests.models import OF_DIFFUSERS, save_sdxl
from worker.diffusion.forward_context import NOTHING, ForwardContext, HookedModel
from worker.diffusion.kernels.fused_layers import ByKernels, fuse, hook_layers, unfuse
from worker.diffusion.kernels.kernels import Kernels
from worker.diffusion.stock import Geglu
from worker.families.load import load

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

BY_KERNELS = ForwardContext(ByKernels())


def no_sum(*_):
    """What no layer asks for."""
    raise AssertionError


class Counted:
    """Counts calls of two kernels that are torch's own functions."""

    def __init__(self):
        self.norms = self.gates = 0
        self.kernels = Kernels(group_norm=self._norm, gated=self._gate, scaled_sum=no_sum)

    def _norm(self, hidden, groups, weight, bias, eps):
        self.norms += 1
        assert hidden.movedim(1, -1).is_contiguous()
        return functional.group_norm(hidden, groups, weight, bias, eps)

    def _gate(self, hidden):
        self.gates += 1
        kept, gate = hidden.chunk(2, dim=-1)
        return kept * functional.gelu(gate)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdxl")
    return load(folder, save_sdxl(folder), device="cpu", dtype="float32")


@pytest.fixture
def hooked(runner):
    counted, unet = Counted(), runner.unet.to(memory_format=torch.channels_last)
    hook_layers(unet, counted.kernels)
    yield unet, counted
    unfuse(unet)


def predicted(unet, context):
    generator = torch.Generator().manual_seed(0)
    config = unet.config
    latents = torch.randn(2, config.in_channels, 8, 8, generator=generator)
    text = torch.randn(2, 5, config.cross_attention_dim, generator=generator)
    pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
    added = {
        "text_embeds": torch.randn(2, pooled, generator=generator),
        "time_ids": torch.ones(2, 6),
    }
    with torch.inference_mode(), HookedModel.of(unet).running(context):
        return unet(latents, 5, text, added_cond_kwargs=added, return_dict=False)[0]


def test_layers_run_by_kernels_where_a_call_is_told_to(hooked) -> None:
    unet, counted = hooked
    expected = predicted(unet, NOTHING)
    assert (counted.norms, counted.gates) == (0, 0)
    torch.testing.assert_close(predicted(unet, BY_KERNELS), expected)
    gates = sum(isinstance(module, Geglu) for module in unet.modules())
    norms = sum(isinstance(module, torch.nn.GroupNorm) for module in unet.modules())
    assert counted.gates == gates > 0
    assert counted.norms == norms > 0


def test_features_that_are_no_pictures_are_left_to_torch(hooked) -> None:
    unet, counted = hooked
    norm = unet.conv_norm_out
    with HookedModel.of(unet).running(BY_KERNELS):
        norm(torch.randn(2, norm.num_channels, 4))
        assert counted.norms == 0
        norm(torch.randn(2, norm.num_channels, 4, 4))
        assert counted.norms == 1


def test_a_model_that_is_compiled_is_taken_off_its_kernels(hooked) -> None:
    unet, counted = hooked
    unfuse(unet)
    predicted(unet, BY_KERNELS)
    assert (counted.norms, counted.gates) == (0, 0)


def test_a_device_without_kernels_hooks_nothing(runner) -> None:
    assert fuse(torch.device("cpu"), runner.unet).is_empty
