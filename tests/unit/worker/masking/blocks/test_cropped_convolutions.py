import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import Conv2d, GroupNorm

from tests.models import CUTS, make_unet
from tests.unit.worker.test_masking import a_mask, arguments, call, pick, record
from worker.masking.blocks.cropped_convolutions import Crop, Reach
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.norms import normed_by, statistics_of
from worker.masking.blocks.rows import MaskedRow, RecordedRow, bounds
from worker.masking.quantised import Quantised

SIDE = 32


@pytest.fixture(scope="module")
def model():
    return make_unet(cross_attention_dim=64)


@pytest.fixture(scope="module")
def blocks(model):
    return MaskedBlocks(model, CUTS, is_cropped=True)


def masked(at, outputs):
    return MaskedRow(cells=a_mask(at, SIDE), dilate=at, cached=outputs)


@given(
    top=st.integers(0, 9), left=st.integers(0, 9), height=st.integers(1, 6),
    width=st.integers(1, 6), scale=st.integers(1, 2),
)  # fmt: skip
def test_a_box_made_of_its_crop_is_that_of_the_whole(top, left, height, width, scale):
    size, reach = (12, 11), Reach(scale=scale, halo=1)
    bottom, right = min(top + height, scale * size[0]), min(left + width, scale * size[1])
    box = slice(top, bottom), slice(left, right)
    conv, hidden = Conv2d(2, 2, 3, padding=1), torch.randn(1, 2, *size)

    def make(features):
        return conv(features.repeat_interleave(scale, 2).repeat_interleave(scale, 3))

    crop = Crop.around(box, size, reach)
    with torch.no_grad():
        whole, part = make(hidden), make(crop.read_from(hidden))
    put = crop.put(part, torch.zeros_like(whole).flatten(2))
    expected = torch.zeros_like(whole)
    expected[..., *box] = whole[..., *box]
    torch.testing.assert_close(put, expected, atol=1e-5, rtol=1e-5)


def test_bounds_hold_all_tokens_and_no_more():
    assert bounds(torch.tensor([8, 14]), 6) == (slice(1, 3), slice(2, 3))
    assert bounds(torch.tensor([], dtype=torch.long), 6) == (slice(0, 0), slice(0, 0))


def test_a_norm_by_its_own_statistics_is_the_norm_even_if_they_were_quantised():
    norm, hidden = GroupNorm(4, 8), 3 + 5 * torch.randn(2, 8, 5, 5)
    torch.nn.init.normal_(norm.weight)
    found = [Quantised.of(statistics_of(row, 4)).restored() for row in hidden]
    with torch.no_grad():
        again = normed_by(torch.stack(found), norm, hidden)
        torch.testing.assert_close(again, norm(hidden), atol=1e-5, rtol=1e-5)


def test_hooked_convolutions_that_are_told_nothing_change_nothing(model, blocks):
    args = arguments(model, 2, side=SIDE)
    before = call(make_unet(cross_attention_dim=64), blocks, args)
    assert blocks.cropped
    assert torch.equal(call(model, blocks, args), before)


def test_with_its_own_outputs_a_cropped_row_is_the_row_in_full(model, blocks):
    args = arguments(model, 3, side=SIDE)
    full, outputs = record(model, blocks, args)
    assert all(set(each) == {*blocks.names, *blocks.cropped} for each in outputs)
    rows = [masked(at, outputs[at]) for at in range(3)]
    torch.testing.assert_close(call(model, blocks, args, rows), full, atol=1e-4, rtol=1e-4)
    quantised = [{name: Quantised.of(of).restored() for name, of in row.items()} for row in outputs]
    rows = [masked(at, quantised[at]) for at in range(3)]
    torch.testing.assert_close(call(model, blocks, args, rows), full, atol=0.05, rtol=0)


def test_cropped_rows_of_a_mixed_batch_are_the_rows_alone(model, blocks):
    args = arguments(model, 4, side=SIDE)
    _, outputs = record(model, blocks, arguments(model, 4, seed=1, side=SIDE))
    rows = [masked(0, outputs[0]), None, masked(2, outputs[2]), RecordedRow()]
    together = call(model, blocks, args, rows)
    left_behind = rows[3].outputs
    for at, row in enumerate(rows):
        alone = call(model, blocks, pick(args, at), [row])
        torch.testing.assert_close(together[at : at + 1], alone, atol=1e-4, rtol=1e-4)
    for name, output in rows[3].outputs.items():
        torch.testing.assert_close(left_behind[name], output, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together[:1], call(model, blocks, pick(args, 0)), atol=1e-3)
