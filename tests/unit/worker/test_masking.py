from dataclasses import replace
from functools import partial

import pytest
import torch
from diffusers import FluxPipeline, FluxTransformer2DModel, UNet2DConditionModel
from hypothesis import given
from hypothesis import strategies as st

from tests.models import CUTS, make_flux_transformer, make_transformer, make_unet
from worker.diffusion.forward_context import ForwardContext
from worker.families.flux import pack
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import EditRows, MaskedRow, RecordedRow, masked_tokens
from worker.masking.blocks.unet import UNET_CUTS

MODELS = {
    "unet": partial(make_unet, cross_attention_dim=64),
    "sd3": make_transformer,
    "flux": partial(make_flux_transformer, num_layers=2, num_single_layers=2),
    "sd3.5": partial(make_transformer, qk_norm="rms_norm", dual_attention_layers=(0, 1)),
}


AT_ONCE = "unet, rows attend at once"


@pytest.fixture(params=[*MODELS, AT_ONCE])
def model(request):
    return MODELS[request.param.partition(",")[0]]()


#: Blocks of a UNet as on a device that has all rows attend at once.
PADDED = {
    name: replace(cut, run=partial(cut.run, is_padded=True)) for name, cut in UNET_CUTS.items()
}


@pytest.fixture
def blocks(request, model):
    return MaskedBlocks(model, CUTS | (PADDED if AT_ONCE in request.node.name else {}))


def arguments(model, rows, seed=0, side=16):
    generator = torch.Generator().manual_seed(seed)
    picture = torch.randn(rows, 4, side, side, generator=generator)
    timestep = torch.linspace(100, 900, rows)
    if isinstance(model, UNet2DConditionModel):
        text = torch.randn(rows, 7, 64, generator=generator)
        return {"sample": picture, "timestep": timestep, "encoder_hidden_states": text}
    if isinstance(model, FluxTransformer2DModel):
        text = torch.randn(rows, 7, 72, generator=generator)
        return {
            "hidden_states": pack(picture),
            "timestep": timestep / 1000,
            "encoder_hidden_states": text,
            "pooled_projections": torch.randn(rows, 32, generator=generator),
            "guidance": torch.linspace(1, 5, rows),
        }
    return {
        "hidden_states": picture,
        "timestep": timestep,
        "encoder_hidden_states": torch.randn(rows, 7, 72, generator=generator),
        "pooled_projections": torch.randn(rows, 64, generator=generator),
    }


def ids_of(model, side=16):
    """Places of the tokens, which the rows of a batch share."""
    if not isinstance(model, FluxTransformer2DModel):
        return {}
    ids = FluxPipeline._prepare_latent_image_ids(1, side // 2, side // 2, "cpu", torch.float32)
    return {"img_ids": ids, "txt_ids": torch.zeros(7, 3)}


def pick(args, at):
    return {name: value[at : at + 1] for name, value in args.items()}


@torch.no_grad()
def call(model, blocks, args, rows=()):
    with blocks.hooked.running(ForwardContext(EditRows(rows))):
        return model(**args, **ids_of(model)).sample


def record(model, blocks, args):
    rows = [RecordedRow() for _ in args["timestep"]]
    out = call(model, blocks, args, rows)
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


def test_hooked_blocks_that_are_told_nothing_change_nothing(model):
    args = arguments(model, 2)
    with torch.no_grad():
        before = model(**args, **ids_of(model)).sample
    keys = list(model.state_dict())
    blocks = MaskedBlocks(model, CUTS)
    assert blocks.names
    assert torch.equal(call(model, blocks, args), before)
    assert list(model.state_dict()) == keys


def test_with_its_own_outputs_a_masked_row_is_the_row_in_full(model, blocks):
    args = arguments(model, 3)
    full, outputs = record(model, blocks, args)
    assert all(set(each) == set(blocks.names) for each in outputs)
    rows = [MaskedRow(cells=a_mask(at), dilate=at, cached=outputs[at]) for at in range(3)]
    torch.testing.assert_close(call(model, blocks, args, rows), full, atol=1e-5, rtol=1e-5)


def test_what_is_recorded_of_a_row_holds_nothing_of_the_other_rows(model, blocks):
    row = RecordedRow(has_caption=True)
    call(model, blocks, arguments(model, 3), [None, row, None])
    assert set(blocks.names) <= set(row.outputs)
    assert all(each.untyped_storage().nbytes() == each.nbytes for each in row.outputs.values())


@pytest.mark.parametrize("changes", [{}, {"dual_attention_layers": (0,)}])
def test_a_row_told_what_the_template_was_takes_its_caption_too(changes):
    model = make_transformer(**changes)
    blocks, args = MaskedBlocks(model, CUTS), arguments(model, 2)
    record = RecordedRow(has_caption=True)
    full = call(model, blocks, args, [record, None])
    assert len(record.outputs) == 2 * len(blocks.names) - 1  # the last makes no caption
    row = MaskedRow(cells=a_mask(2), dilate=1, cached=record.outputs)
    alike = row.next_step(record.outputs, is_told_alike=True)
    again = call(model, blocks, args, [alike, None])
    torch.testing.assert_close(again, full, atol=1e-5, rtol=1e-5)
    other = arguments(model, 2, seed=1)
    with_own, with_its = (call(model, blocks, other, [each, None])[0] for each in (row, alike))
    assert not torch.allclose(with_own, with_its, atol=1e-4)
    everything = MaskedRow(
        cells=torch.ones(16, 16), dilate=0, cached=record.outputs, is_told_alike=True
    )
    assert torch.equal(
        call(model, blocks, other, [everything] * 2),
        call(model, blocks, other, [replace(everything, is_told_alike=False)] * 2),
    )


def test_rows_of_a_mixed_batch_are_the_rows_alone(model, blocks):
    args, other = arguments(model, 4), arguments(model, 4, seed=1)
    _, outputs = record(model, blocks, other)
    rows = [
        MaskedRow(cells=a_mask(0), dilate=0, cached=outputs[0]),
        None,
        MaskedRow(cells=a_mask(4), dilate=1, cached=outputs[2]),
        RecordedRow(),
    ]
    together = call(model, blocks, args, rows)
    for at, row in enumerate(rows):
        alone = call(model, blocks, pick(args, at), [row])
        torch.testing.assert_close(together[at : at + 1], alone, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together[:1], call(model, blocks, pick(args, 0)), atol=1e-3)


def test_rows_that_attend_at_once_are_those_that_attend_edit_by_edit():
    model = make_unet(cross_attention_dim=64)
    args, other = arguments(model, 5), arguments(model, 5, seed=1)
    edit_by_edit = MaskedBlocks(model, CUTS)
    _, outputs = record(model, edit_by_edit, other)
    first = MaskedRow(cells=a_mask(1), dilate=0, cached=outputs[0])
    rows = [first, first.next_step(outputs[1]), None]
    rows += [MaskedRow(cells=a_mask(at), dilate=1, cached=outputs[at]) for at in (3, 4)]
    together = call(model, edit_by_edit, args, rows)
    again = make_unet(cross_attention_dim=64)
    at_once = call(again, MaskedBlocks(again, PADDED), args, rows)
    torch.testing.assert_close(at_once, together, atol=1e-5, rtol=1e-5)


def test_a_block_without_an_output_of_the_template_runs_in_full(model, blocks):
    args = arguments(model, 1)
    full = call(model, blocks, args)
    row = MaskedRow(cells=a_mask(1), dilate=0, cached={})
    assert torch.equal(call(model, blocks, args, [row]), full)


def test_a_mask_of_everything_computes_everything(model, blocks):
    args = arguments(model, 1)
    _, outputs = record(model, blocks, arguments(model, 1, seed=5))
    row = MaskedRow(cells=torch.ones(16, 16), dilate=0, cached=outputs[0])
    full = call(model, blocks, args)
    torch.testing.assert_close(call(model, blocks, args, [row]), full, atol=1e-5, rtol=1e-5)
