"""Which tokens are read, how they attend, and where what is made of them goes."""

import torch

from worker.masking.blocks.layout import RowSpan, lay_out

ONE, MANY, NONE = torch.tensor([2]), torch.tensor([0, 1, 3]), torch.tensor([], dtype=torch.long)


def test_rows_of_one_edit_attend_in_one_call_wherever_they_run():
    for is_padded in (False, True):
        layout = lay_out((MANY, MANY), 4, is_padded=is_padded)
        assert layout.spans == [RowSpan(0, 2, 3)]
        assert layout.read.tolist() == [0, 1, 3, 4, 5, 7]
        assert layout.kept is None and layout.written is layout.read


def test_edits_attend_one_by_one_without_padding():
    layout = lay_out((ONE, MANY, MANY, NONE), 4, is_padded=False)
    assert layout.spans == [RowSpan(0, 1, 1), RowSpan(1, 3, 3), RowSpan(3, 4, 0)]
    assert [span.num_tokens for span in layout.spans] == [1, 6, 0]
    assert layout.spans[1].rows == slice(1, 3)
    assert layout.read.tolist() == [2, 4, 5, 7, 8, 9, 11]


def test_padded_rows_attend_at_once_and_their_padding_is_dropped():
    layout = lay_out((ONE, MANY, NONE), 4, is_padded=True)
    assert layout.spans == [RowSpan(0, 3, 3)]
    assert layout.read.tolist() == [2, 0, 0, 4, 5, 7, 8, 8, 8]
    assert layout.kept is not None
    assert layout.read[layout.kept].tolist() == layout.written.tolist() == [2, 4, 5, 7]


def test_a_layout_is_worked_out_once_while_its_rows_stay():
    first = lay_out((ONE, MANY), 4, is_padded=True)
    assert lay_out((ONE, MANY), 4, is_padded=True) is first
    assert lay_out((ONE, MANY), 4, is_padded=False) is not first
    assert lay_out((ONE.clone(), MANY), 4, is_padded=True) is not first
