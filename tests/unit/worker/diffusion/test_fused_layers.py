"""Layers that run by kernels, which torch's own functions stand for here."""

import pytest
import torch
from torch.nn import functional

from tests.captured import Captures
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.diffusion.forward_context import NOTHING, ForwardContext, HookedModel
from worker.diffusion.kernels.fused_layers import ByKernels, fuse, hook_layers, unfuse
from worker.diffusion.kernels.kernels import Kernels
from worker.diffusion.stock import Geglu
from worker.families.load import load
from worker.masking.blocks.rows import EditRows
from worker.pipeline.step_graphs import Pass, StepGraphs

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


@pytest.mark.parametrize(
    ("rows", "context", "is_replayed", "by_kernels"),
    [
        (2, NOTHING, True, True),
        (2, NOTHING, False, False),  # as where LoRAs are added row by row
        (6, NOTHING, False, True),
        (6, ForwardContext(EditRows(())), False, False),
        (10, ForwardContext(EditRows(())), False, True),
        (2, ForwardContext(EditRows(())), True, True),
    ],
)
def test_who_waits_for_a_host_waits_for_no_kernel(
    runner, monkeypatch, rows, context, is_replayed, by_kernels
) -> None:
    monkeypatch.setattr(runner, "by_kernels", BY_KERNELS)
    monkeypatch.setattr(runner, "graphs", StepGraphs(Captures()))
    latents = torch.empty(rows, 4, 128, 128, device="meta")  # of 1,024 pixels
    asked = Pass(inputs=[latents], run=lambda given: given[0]) if is_replayed else None
    told = runner._kernels_for(latents, context, asked)
    assert (told is BY_KERNELS) == by_kernels


def test_a_device_without_kernels_hooks_nothing(runner) -> None:
    assert fuse(torch.device("cpu"), runner.unet).is_empty
