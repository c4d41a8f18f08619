import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.masking.quantised import FlatStep, Quantised

SIZES = st.dictionaries(
    st.text("abc/", min_size=1, max_size=4),
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    max_size=4,
)


def outputs(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def quantised(made):
    return {name: Quantised.of(output) for name, output in made.items()}


def test_an_output_is_kept_to_half_a_step_of_its_tokens_scale() -> None:
    output = outputs({"a": (7, 5)})["a"]
    kept = Quantised.of(output)
    assert kept.values.dtype is torch.int8 and kept.values.abs().max() == 127
    assert ((kept.restored() - output).abs() <= kept.scales / 2 + 1e-7).all()
    assert kept.num_bytes == 7 * 5 + 4 * 7
    assert not Quantised.of(torch.zeros(1, 2)).restored().any()


def test_it_is_written_with_offsets_and_they_are_what_was_put() -> None:
    output, other = (outputs({"a": (3, 2)}, seed)["a"] for seed in (1, 2))
    kept, offset, into = Quantised.of(output), torch.empty(3, 2), torch.empty(2, 3, 2)
    kept.put(into)
    assert torch.equal(into, kept.restored().expand(2, 3, 2))
    kept.put_offset(other, offset)
    kept.put(into, offset.expand(2, 3, 2))
    torch.testing.assert_close(into, other.expand(2, 3, 2))


def test_a_checksum_is_of_values_and_scales() -> None:
    kept = Quantised.of(outputs({"a": (3, 2)})["a"])
    assert kept.checksum == kept.to(torch.device("cpu")).checksum
    for part in ("values", "scales"):
        parts = {"values": kept.values.clone(), "scales": kept.scales.clone()}
        parts[part][1] += 1
        assert Quantised(**parts).checksum != kept.checksum


@given(SIZES, st.integers(0, 2**16))
def test_a_step_has_its_blocks_as_they_were_in_order(sizes, seed) -> None:
    blocks = quantised(outputs(sizes, seed))
    step = FlatStep.of(blocks)
    assert list(step) == list(blocks) and len(step) == len(blocks)
    assert step.numbers.shape == (sum(length * channels for length, channels in sizes.values()),)
    assert step.scales.shape == (sum(length for length, _ in sizes.values()),)
    assert step.num_bytes == sum(block.num_bytes for block in blocks.values())
    for name, block in blocks.items():
        assert name in step and step[name].checksum == block.checksum


def test_some_of_a_step_is_read_from_the_same_tensors_and_all_from_others() -> None:
    step = FlatStep.of(quantised(outputs({"a": (2, 3), "b": (1, 4), "c": (2, 2)})))
    some = step.only(["c", "a", "d"])
    assert list(some) == ["a", "c"] and "b" not in some
    assert some.numbers is step.numbers and some["c"].checksum == step["c"].checksum
    with pytest.raises(KeyError):
        _ = some["b"]
    other = some.on(step.numbers + 1, step.scales * 2)
    assert torch.equal(other["c"].values, step["c"].values + 1)
    assert torch.equal(other["c"].scales, step["c"].scales * 2)
    there = some.to(torch.device("meta"))
    assert there["a"].values.device.type == "meta" and list(there) == ["a", "c"]
