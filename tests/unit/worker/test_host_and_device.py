"""Do steps keep host and device apart? Tensors on `meta` have no values: reading one raises, and so
does mixing one with a host tensor that is no scalar. So the discipline is checked without a device.
"""

import pytest
import torch

from core.family import SAMPLERS
from tests.cases import rarely_but
from tests.jobs import a_request
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.families.load import load

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdxl")
    runner = load(folder, save_sdxl(folder), device="meta", dtype="float16")
    runner.overlays.lend()
    return runner


@pytest.mark.parametrize("sampler", rarely_but([None, "unipc"], SAMPLERS))
def test_a_step_reads_nothing_from_the_device(runner, sampler):
    samples = [
        runner.open(a_request(scheduler=sampler, guidance=guidance, steps=4), 0)
        for guidance in (1.0, 5.0)
    ]
    for _ in range(samples[0].num_steps):
        runner.advance(samples, runner.forward(samples))
    for sample in samples:
        assert sample.latents.device.type == "meta"
        assert sample.latents.dtype == torch.float16
        assert tuple(sample.left) == (25,)
        assert runner.decode_latents(sample.latents).shape == (1, 3, 32, 32)


def test_the_check_notices_a_read():
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(1, device="meta").item()


def test_the_check_notices_tensors_of_two_devices():
    with pytest.raises(RuntimeError):
        torch.zeros(3, device="meta") + torch.zeros(3)
