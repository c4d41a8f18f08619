"""Latents of many images in one buffer."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.places import Places

SHAPE, CPU = (2, 3, 3), torch.device("cpu")


def an_image(number: float) -> torch.Tensor:
    return torch.full((1, *SHAPE), number)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=20))
def test_an_image_keeps_its_latents_whoever_comes_and_goes(ways: list[tuple[int, int]]) -> None:
    pool, held = LatentPool(SHAPE, torch.float32, CPU), {}
    for number, (num_kept, leaves) in enumerate(ways):
        kept = [an_image(number + 0.5)] * num_kept
        held[number] = (pool.take(an_image(number), num_kept, kept), num_kept)
        held.pop(leaves, None)
    assert len(pool.state) <= max(1, 2 * len(ways))
    assert len(set(pool.free)) == len(pool.free) == len(pool.state) - len(held)
    for number, (row, num_kept) in held.items():
        latents, *kept = row.tensors
        assert torch.equal(latents, an_image(number))
        assert all(torch.equal(each, an_image(number + 0.5)) for each in kept[:num_kept])


def test_a_row_begins_with_nothing_of_whoever_had_it() -> None:
    pool = LatentPool(SHAPE, torch.float32, CPU)
    row = pool.take(an_image(1), 2, [an_image(float("nan"))] * 2)
    del row
    assert torch.stack(pool.take(an_image(2), 2).tensors[1:]).eq(0).all()


def test_half_precision_comes_back_as_it_was() -> None:
    drawn = torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    pool = LatentPool(SHAPE, torch.bfloat16, CPU)
    assert torch.equal(pool.take(drawn).latents, drawn)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True))
def test_places_are_read_and_written_where_they_are(numbers: list[int]) -> None:
    rows, places = torch.arange(10.0), Places(numbers, CPU)
    assert places.of(rows).tolist() == numbers
    places.put(rows, -places.of(rows))
    assert rows.tolist() == [-each if each in numbers else each for each in range(10)]
