import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from worker.diffusion.edit import masked_cells

factors = st.sampled_from((1, 2, 4, 8))


def stock_cells(mask, factor):
    height, width = mask.shape[2:]
    return functional.interpolate(mask, size=(height // factor, width // factor))


def blank(side=32):
    return torch.zeros(1, 1, side, side)


@st.composite
def strokes(draw, thinnest=1):
    """A few strokes along rows and columns, none thinner than it says."""
    mask = blank()
    for _ in range(draw(st.integers(1, 3))):
        top, left = (draw(st.integers(0, 32 - thinnest)) for _ in range(2))
        height, width = (draw(st.integers(thinnest, 32 - at)) for at in (top, left))
        mask[0, 0, top : top + height, left : left + width] = 1
    return mask


@given(factors, strokes())
def test_every_pixel_of_a_stroke_lies_in_a_cell_made_anew_or_beside_one(factor, mask):
    cells, stock = masked_cells(mask, factor), stock_cells(mask, factor)
    touched = functional.max_pool2d(mask, factor)
    beside = functional.max_pool2d(cells, 3, stride=1, padding=1)
    assert (stock <= cells).all() and (cells <= touched).all()
    assert (touched <= beside).all()


@given(st.data())
def test_a_brush_as_wide_as_a_cell_makes_the_mask_of_stock_pipelines(data):
    factor = data.draw(factors)
    mask = data.draw(strokes(thinnest=factor))
    assert torch.equal(masked_cells(mask, factor), stock_cells(mask, factor))


@given(factors, st.integers(0, 31), st.integers(0, 31))
def test_a_dot_makes_the_cell_anew_that_it_is_in(factor, row, column):
    mask = blank()
    mask[0, 0, row, column] = 1
    cells = masked_cells(mask, factor)
    assert cells.sum() == cells[0, 0, row // factor, column // factor] == 1


def test_an_empty_mask_has_no_cell_and_a_full_one_all():
    assert not masked_cells(blank(), 8).any()
    assert masked_cells(1 - blank(), 8).all()
