import pytest
import torch

from profiling.lora_bound import bound_of, likeness
from tests.jobs import a_request
from tests.loras import ATTENTION, factors
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.families.load import load
from worker.lora.changes import Product
from worker.lora.mix import PLAIN, Lora, Mix


@pytest.mark.parametrize(
    ("curves", "bound"),
    [
        ([[1.0, 1.0, 0.998, 1.0, 0.5]], 20),
        ([[0.98, 1.0, 1.0, 1.0, 1.0]], 0),
        ([[1.0] * 5], 50),
        ([[0.9985, 0.9, 0.9], [1.0, 1.0, 0.9]], 16),
    ],
)
def test_the_bound_is_where_latents_part_on_average(curves, bound):
    assert bound_of([torch.tensor(curve) for curve in curves]) == bound


@pytest.mark.filterwarnings(OF_DIFFUSERS)
def test_latents_are_compared_after_each_step(tmp_path):
    runner = load(tmp_path, save_sdxl(tmp_path), device="cpu", dtype="float32")
    drawn = factors(runner.overlays.adapters.shapes, ATTENTION)
    lora = Lora("a", {at: Product(down, up.flatten(1), 1.0) for at, (down, up) in drawn.items()})
    same = likeness(runner, a_request(steps=2), PLAIN)
    other = likeness(runner, a_request(steps=2), Mix.of([(lora, 1.0)]))
    assert same.shape == other.shape == (2,)
    assert same.min() > 0.9999 and 1 > other[0] > other[1]
