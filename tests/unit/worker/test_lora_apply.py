"""Merging, and products row by row, on a few layers."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loras import factors
from worker.lora.changes import Product
from worker.lora.merge import Merging
from worker.lora.mix import PLAIN, Lora, Mix
from worker.lora.per_row import PerRow, Runs

SHAPES = {"flat": (6, 5), "conv": (7, 3, 3, 3), "strided": (4, 3, 3, 3), "one": (5, 3, 1, 1)}


def layers(dtype=torch.float32):
    torch.manual_seed(0)
    return {
        "flat": torch.nn.Linear(5, 6, dtype=dtype),
        "conv": torch.nn.Conv2d(3, 7, 3, padding=1, dtype=dtype),
        "strided": torch.nn.Conv2d(3, 4, 3, stride=2, dtype=dtype),
        "one": torch.nn.Conv2d(3, 5, 1, dtype=dtype),
    }


def a_lora(name, rank=2, ends=("",)):
    drawn = factors(SHAPES, ends, rank=rank, seed=ord(name), size=0.5)
    return Lora(name, {at: Product(down, up.flatten(1), 0.7) for at, (down, up) in drawn.items()})


A, B, C = a_lora("a"), a_lora("b", rank=5), a_lora("c", ends=("flat", "strided"))
#: One that adds to biases, of one layer nothing else.
BIASED = Lora("d", {
    "flat": replace(A.products["flat"], bias=torch.arange(6.0) - 2),
    "conv": Product(torch.zeros(0, 1), torch.zeros(7, 0), 1.0, torch.arange(7.0) / 7),
})  # fmt: skip
MIXES = [
    PLAIN,
    Mix.of([(A, 1.0)]),
    Mix.of([(B, -0.5)]),
    Mix.of([(C, 1.5)]),
    Mix.of([(A, 0.3), (B, 0.4)]),
    Mix.of([(BIASED, 0.5), (A, 0.2)]),
]


def outputs(house, rows):
    """Run every layer on some rows: flat ones with tokens and without."""
    draw = torch.Generator().manual_seed(1)
    images = torch.randn(8, 3, 6, 6, generator=draw)[rows]
    tokens = torch.randn(8, 4, 5, generator=draw)[rows]
    given = {"flat": tokens, "conv": images, "strided": images, "one": images}
    made = [house[name](each) for name, each in given.items()]
    return [*made, house["flat"](tokens[:, 0])]


@torch.inference_mode()
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from(MIXES), min_size=1, max_size=8),
    st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_each_row_is_as_if_its_loras_were_merged(rows, memory):
    house = {name: layer.to(memory_format=memory) for name, layer in layers().items()}
    merging, per_row = Merging(house), PerRow(house)
    per_row.apply(rows)
    together = outputs(house, slice(len(rows)))
    per_row.apply(())
    for row, mix in enumerate(rows):
        merging.apply(mix)
        for ours, alone in zip(together, outputs(house, slice(row, row + 1)), strict=True):
            torch.testing.assert_close(ours[row], alone[0], rtol=1e-5, atol=1e-5)


@given(st.lists(st.sampled_from(MIXES), min_size=1, max_size=9).filter(lambda r: set(r) != {PLAIN}))
def test_runs_cover_every_row_with_loras(rows):
    runs = Runs.of(rows)
    cut = [mix for mix in runs.mixes for _ in range(runs.length)]
    assert cut == rows[runs.rows]
    assert set(rows) - set(cut) <= {PLAIN}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_after_a_thousand_cycles_the_weights_are_bit_for_bit_what_they_were(dtype):
    house = layers(dtype)
    before = {name: layer.weight.clone() for name, layer in house.items()}
    merging = Merging(house)
    for cycle in range(1000):
        merging.apply(MIXES[1 + cycle % 5])
        if cycle % 2:
            merging.apply(PLAIN)
    merging.apply(PLAIN)
    for name, weight in before.items():
        assert torch.equal(house[name].weight, weight)


def test_a_merged_weight_is_rounded_once():
    house = layers(torch.float16)
    before = house["conv"].weight.clone()
    Merging(house).apply(MIXES[4])
    down, up = MIXES[4].product("conv", before)
    exact = before.double() + (up.double() @ down.double().flatten(1)).view_as(before)
    assert (house["conv"].weight.double() - exact).abs().max() <= exact.abs().max() * 2**-11


def test_a_mix_is_the_same_in_any_order_and_without_those_of_no_strength():
    assert Mix.of([(A, 1.0), (B, 2.0)]) == Mix.of([(B, 2.0), (C, 0.0), (A, 1.0)])
    assert Mix.of([(A, 1.0)]) != Mix.of([(A, 0.5)])


@torch.inference_mode()
def test_a_change_that_fails_half_way_leaves_nothing_behind():
    house = layers()
    before = outputs(house, slice(2))
    wrong = Mix.of(
        [(Lora("w", A.products | {"one": Product(torch.ones(2, 4), torch.ones(5, 2), 1.0)}), 1.0)]
    )
    merging, per_row = Merging(house), PerRow(house)
    for apply, nothing in ((merging.apply, PLAIN), (per_row.apply, ())):
        with pytest.raises(RuntimeError):
            apply(wrong if nothing == PLAIN else [wrong, PLAIN])
        apply(nothing)
        for now, then in zip(outputs(house, slice(2)), before, strict=True):
            assert torch.equal(now, then)
