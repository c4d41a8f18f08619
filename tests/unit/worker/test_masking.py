import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models import make_unet
from worker.masking.rows import MaskedRow, RecordedRow, masked_tokens
from worker.masking.unet import MaskedBlocks


@pytest.fixture
def unet():
    return make_unet(cross_attention_dim=64)


@pytest.fixture
def blocks(unet):
    return MaskedBlocks(unet)


def arguments(rows, seed=0, side=16):
    generator = torch.Generator().manual_seed(seed)
    return {
        "sample": torch.randn(rows, 4, side, side, generator=generator),
        "timestep": torch.linspace(100, 900, rows),
        "encoder_hidden_states": torch.randn(rows, 7, 64, generator=generator),
    }


def pick(args, at):
    return {name: value[at : at + 1] for name, value in args.items()}


@torch.no_grad()
def call(unet, blocks, args, rows=()):
    blocks.rows = rows
    out = unet(**args).sample
    blocks.rows = ()
    return out


def record(unet, blocks, args):
    rows = [RecordedRow() for _ in args["sample"]]
    out = call(unet, blocks, args, rows)
    return out, [row.outputs for row in rows]


def a_mask(seed, side=16):
    cells = torch.zeros(side, side)
    cells[seed : seed + 3 + 2 * seed, 2 : 5 + seed] = 1
    return cells


@given(
    height=st.integers(1, 20), width=st.integers(1, 20), halvings=st.integers(0, 3),
    dilate=st.integers(0, 2), seed=st.integers(0, 99),
)  # fmt: skip
def test_every_masked_pixel_has_its_token_and_dilation_only_adds(
    height, width, halvings, dilate, seed
):
    cells = (torch.rand(height, width, generator=torch.Generator().manual_seed(seed)) < 0.1).int()
    h, w = height, width
    for _ in range(halvings):
        h, w = -(-h // 2), -(-w // 2)
    tokens = set(masked_tokens(cells, h * w, 0).tolist())
    bigger = set(masked_tokens(cells, h * w, dilate).tolist())
    assert tokens <= bigger <= set(range(h * w))
    assert bool(tokens) == bool(cells.any())
    if (h, w) == (height, width):
        assert tokens == set(cells.flatten().nonzero().flatten().tolist())


def test_a_length_that_no_halving_has_is_refused():
    with pytest.raises(ValueError, match="never has 7 tokens"):
        masked_tokens(torch.zeros(4, 4), 7, 0)


def test_hooked_blocks_that_are_told_nothing_change_nothing(unet):
    args = arguments(2)
    with torch.no_grad():
        before = unet(**args).sample
    keys = list(unet.state_dict())
    blocks = MaskedBlocks(unet)
    assert blocks.names
    assert torch.equal(call(unet, blocks, args), before)
    assert list(unet.state_dict()) == keys


def test_with_its_own_outputs_a_masked_row_is_the_row_in_full(unet, blocks):
    args = arguments(3)
    full, outputs = record(unet, blocks, args)
    assert all(set(each) == set(blocks.names) for each in outputs)
    rows = [MaskedRow(cells=a_mask(at), dilate=at, cached=outputs[at]) for at in range(3)]
    torch.testing.assert_close(call(unet, blocks, args, rows), full, atol=1e-5, rtol=1e-5)


def test_rows_of_a_mixed_batch_are_the_rows_alone(unet, blocks):
    args, other = arguments(4), arguments(4, seed=1)
    _, outputs = record(unet, blocks, other)
    rows = [
        MaskedRow(cells=a_mask(0), dilate=0, cached=outputs[0]),
        None,
        MaskedRow(cells=a_mask(4), dilate=1, cached=outputs[2]),
        RecordedRow(),
    ]
    together = call(unet, blocks, args, rows)
    for at, row in enumerate(rows):
        alone = call(unet, blocks, pick(args, at), [row])
        torch.testing.assert_close(together[at : at + 1], alone, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together[:1], call(unet, blocks, pick(args, 0)), atol=1e-3)


def test_a_block_without_an_output_of_the_template_runs_in_full(unet, blocks):
    args = arguments(1)
    full = call(unet, blocks, args)
    row = MaskedRow(cells=a_mask(1), dilate=0, cached={})
    assert torch.equal(call(unet, blocks, args, [row]), full)


def test_a_mask_of_everything_computes_everything(unet, blocks):
    args = arguments(1)
    _, outputs = record(unet, blocks, arguments(1, seed=5))
    row = MaskedRow(cells=torch.ones(16, 16), dilate=0, cached=outputs[0])
    full = call(unet, blocks, args)
    torch.testing.assert_close(call(unet, blocks, args, [row]), full, atol=1e-5, rtol=1e-5)
