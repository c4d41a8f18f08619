from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.diffusion.latent_pool import LatentPool
from worker.lora.mix import PLAIN
from worker.pipeline.packing import CPU_PIXELS, Packing, calls
from worker.pipeline.sample import Conditioning

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def a_sample(rows: int, side: int) -> Any:
    return SimpleNamespace(
        rows=rows,
        row=LatentPool((4, side, side), torch.float32, CPU).take(torch.zeros(1, 4, side, side)),
        conditioning=Conditioning(text=torch.zeros(rows, 2, 3), added={}),
        time_cond=None,
        mix=PLAIN,
        controls=(),
        reuse=None,
        image_prompt=None,
    )


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.sampled_from([16, 64, 256]))
def test_a_cpu_takes_no_more_in_one_call_than_its_caches_hold(rows: list[int], side: int) -> None:
    samples = [a_sample(each, side) for each in rows]
    parts = calls(samples, CPU)
    assert [sample for part in parts for sample in part] == samples
    for part in parts:
        pixels = sum(sample.rows for sample in part) * side**2
        assert pixels <= CPU_PIXELS or len(part) == 1
    assert calls(samples, CUDA) == [samples]


def test_eight_small_images_are_one_call_and_eight_large_ones_a_call_each() -> None:
    assert len(calls([a_sample(2, 16)] * 8, CPU)) == 1
    assert [len(part) for part in calls([a_sample(2, 64)] * 8, CPU)] == [1] * 8


def test_each_call_of_a_step_is_packed_once_until_somebody_joins_or_leaves() -> None:
    packing, (a, b, c) = Packing(), [a_sample(2, 16) for _ in range(3)]
    first, second = packing.pack([a, b]), packing.pack([c])
    assert packing.pack([a, b]) is first
    assert packing.pack([c]) is second
    assert len(packing.pack([a, b, c]).text) == 6
    packing.forget()
    assert packing.pack([a, b]) is not first
