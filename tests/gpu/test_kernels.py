"""Are kernels on CUDA what torch makes, for one row as for many?"""

import pytest
import torch
from torch.nn import functional

from tests.models import OF_DIFFUSERS, save_sdxl
from worker.diffusion.kernels.kernels import kernels_of
from worker.families.load import load
from worker.masking.quantised import Quantised

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.asks_cuda,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]

#: Of what torch makes in double precision: two roundings apart, and as much near nought.
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-4},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1.6e-2},
}
#: Rows, channels, height, width, groups: levels of SDXL, a decoder's, and what fills no block.
FEATURES = [
    (2, 320, 128, 128, 32),
    (2, 2560, 32, 32, 32),
    (1, 128, 512, 512, 32),
    (3, 96, 7, 5, 16),
    (2, 32, 1, 1, 32),
]


@pytest.fixture(params=TOLERANCE, ids=str)
def dtype(request):
    return request.param


@pytest.fixture
def kernels(device):
    found = kernels_of(torch.device(device))
    assert found is not None, "the log says why they were not built"
    return found


def some(*shape, dtype, moved=0.0):
    generator = torch.Generator("cuda").manual_seed(0)
    return (3 * torch.randn(shape, generator=generator, device="cuda") + moved).to(dtype)


@pytest.mark.parametrize("moved", [0.0, 30.0])
@pytest.mark.parametrize("shape", FEATURES, ids=str)
def test_norms_are_torchs_and_a_row_is_the_same_alone(kernels, dtype, shape, moved):
    *size, groups = shape
    hidden = some(*size, dtype=dtype, moved=moved).contiguous(memory_format=torch.channels_last)
    weight, bias = some(2, size[1], dtype=dtype)
    made = kernels.group_norm(hidden, groups, weight, bias, 1e-5)
    exact = functional.group_norm(hidden.double(), groups, weight.double(), bias.double(), 1e-5)
    assert made.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made.double(), exact, **TOLERANCE[dtype])
    if hidden[0].numel() > groups:  # the norm of one number is rounding alone
        assert torch.equal(kernels.group_norm(hidden[-1:], groups, weight, bias, 1e-5), made[-1:])


@pytest.mark.parametrize("shape", [(2, 1024, 2 * 5120), (1, 77, 2 * 100)], ids=str)
def test_gates_are_torchs(kernels, dtype, shape):
    hidden, gate = (given := some(*shape, dtype=dtype)).chunk(2, dim=-1)
    exact = hidden.double() * functional.gelu(gate.double())
    torch.testing.assert_close(kernels.gated(given).double(), exact, **TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(2, 1024, 1280), (1, 60, 100)], ids=str)
def test_what_was_recorded_is_added_as_torch_adds_it(kernels, dtype, shape):
    offsets = some(*shape, dtype=dtype)
    recorded = Quantised.of(some(*shape[1:], dtype=torch.float32)).to(torch.device("cuda"))
    exact = recorded.values.double() * recorded.scales.double()
    values, scales, made = recorded.values, recorded.scales, torch.empty_like(offsets)
    kernels.scaled_sum(offsets, values, scales, made)
    torch.testing.assert_close(made.double(), offsets.double() + exact, **TOLERANCE[dtype])
    kernels.scaled_sum(offsets[0], values, scales, made[0], sign=-1.0)
    torch.testing.assert_close(made[0].double(), offsets[0].double() - exact, **TOLERANCE[dtype])
    kernels.scaled_sum(None, values, scales, made)
    torch.testing.assert_close(made.double(), exact.expand_as(made), **TOLERANCE[dtype])


def test_a_model_and_its_decoder_run_by_them(tmp_path, device):
    runner = load(tmp_path, save_sdxl(tmp_path), device=device, dtype="float16")
    norms = [runner.unet.conv_norm_out, runner.pipe.vae.decoder.conv_norm_out]
    assert not runner.by_kernels.is_empty
    assert all(norm._diffusers_hook.get_hook("kernels") is not None for norm in norms)
    runner.compile()
    assert norms[0]._diffusers_hook.get_hook("kernels") is None
