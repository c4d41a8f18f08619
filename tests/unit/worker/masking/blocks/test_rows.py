"""Which tokens a mask touches, what bounds them, and what rows share from step to step."""

import torch

from catalog.masking.config import Keep
from worker.masking.blocks.rows import (
    MaskedRow,
    OwnOutputs,
    RecordedRow,
    block_of,
    bounds,
    caption_of,
    masked_tokens,
    rest_of,
    select,
)


def a_mask(height, width, *cells):
    mask = torch.zeros(height, width)
    for row, column in cells:
        mask[row, column] = 1
    return mask


def test_a_cell_is_the_token_of_its_row_and_column():
    assert masked_tokens(a_mask(3, 5, (0, 4), (2, 1)), 15, 0).tolist() == [4, 11]
    assert masked_tokens(a_mask(1, 1, (0, 0)), 1, 0).tolist() == [0]


def test_half_as_many_tokens_a_side_rounded_up_are_touched_by_any_of_their_cells():
    cells = a_mask(5, 3, (0, 0), (4, 2))
    assert masked_tokens(cells, 6, 0).tolist() == [0, 5]  # 3 x 2
    assert masked_tokens(cells, 2, 0).tolist() == [0, 1]  # 2 x 1
    assert masked_tokens(cells, 1, 0).tolist() == [0]


def test_dilation_adds_a_ring_of_tokens_on_every_side():
    cells = a_mask(5, 5, (2, 2))
    ring = [6, 7, 8, 11, 12, 13, 16, 17, 18]
    assert masked_tokens(cells, 25, 1).tolist() == ring
    assert masked_tokens(cells, 25, 2).tolist() == list(range(25))


def test_a_box_holds_every_token_and_no_row_or_column_more():
    tokens = torch.tensor([6, 8, 16])  # of 5 columns: rows 1 to 3, columns 1 to 3
    assert bounds(tokens, 5) == (slice(1, 4), slice(1, 4))
    assert bounds(torch.tensor([7]), 5) == (slice(1, 2), slice(2, 3))
    assert bounds(torch.tensor([], dtype=torch.long), 5) == (slice(0, 0), slice(0, 0))


def test_tokens_and_boxes_are_worked_out_once_for_all_steps_of_an_edit():
    row = MaskedRow(cells=a_mask(4, 4, (1, 2)), dilate=0, cached={})
    tokens, box = row.tokens(16), row.box(4, 4)
    assert tokens.tolist() == [6] and box == (slice(1, 2), slice(2, 3))
    assert row.box(2, 2) == (slice(0, 1), slice(1, 2))
    later = row.next_step({"block": torch.ones(1)}, is_told_alike=True)
    assert later.tokens(16) is tokens and later.box(4, 4) is box
    assert set(later.cached) == {"block"} and later.is_told_alike and later.dilate == 0
    assert not row.is_told_alike and not row.next_step({}).is_told_alike


def test_a_recorded_row_keeps_outputs_without_its_caption_unless_told_otherwise():
    row = RecordedRow()
    assert row.keeps is Keep.OUTPUTS and not row.has_caption and row.outputs == {}


def test_what_is_kept_of_a_row_holds_nothing_of_the_other_rows():
    batch, alone, outputs = torch.randn(3, 4, 2), torch.randn(1, 4, 2), OwnOutputs()
    outputs["in company"], outputs["alone"] = batch[1], alone[0]
    assert torch.equal(outputs["in company"], batch[1])
    assert outputs["in company"].untyped_storage().nbytes() == batch[1].nbytes
    assert outputs["alone"].data_ptr() == alone.data_ptr(), "a copy would be for nothing"


def test_what_belongs_to_a_block_is_named_after_it():
    assert caption_of("down.0") == "down.0/caption"
    assert block_of("down.0/caption") == block_of("down.0") == "down.0"


def test_arguments_with_a_row_each_are_picked_and_others_passed_on():
    each, shared, number = torch.arange(6).reshape(3, 2), torch.arange(2), torch.tensor(7)
    rows = torch.tensor([2, 0])
    picked = select(each, rows, 3)
    assert torch.is_tensor(picked) and picked.tolist() == [[4, 5], [0, 1]]
    for value in (shared, number, None, "text"):
        assert select(value, rows, 3) is value


def test_rows_that_are_not_masked_run_in_full():
    assert rest_of({1, 3}, 5) == [0, 2, 4]
    assert rest_of(set(), 2) == [0, 1]
