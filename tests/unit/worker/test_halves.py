from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.control.client.late_unet import RowResiduals, among
from worker.parallel.halves import halve


@dataclass
class Image:
    rows: int
    stays: bool = False


images = st.one_of(
    st.builds(Image, rows=st.integers(1, 2)),
    st.builds(Image, rows=st.integers(1, 3), stays=st.just(True)),
)


def test_of_a_guided_image_the_conditional_row_goes():
    halves = halve([Image(2), Image(2)])
    assert (halves.here, halves.there) == ((0, 2), (1, 3))


def test_images_of_one_row_share_the_devices():
    halves = halve([Image(1), Image(1), Image(1)])
    assert (halves.here, halves.there) == ((0, 2), (1,))


def test_edits_under_masks_stay_whole_and_others_make_up_for_them():
    halves = halve([Image(2), Image(3, stays=True)])
    assert (halves.here, halves.there) == ((2, 3, 4), (0, 1))


@given(st.lists(images, min_size=1, max_size=8))
def test_every_row_is_in_one_half_and_no_half_is_larger_than_it_must_be(batch):
    halves = halve(batch)
    rows = sum(image.rows for image in batch)
    masked = sum(image.rows for image in batch if image.stays)
    assert sorted(halves.here + halves.there) == list(range(rows))
    assert list(halves.here) == sorted(halves.here)
    assert list(halves.there) == sorted(halves.there)
    assert len(halves.here) == max(masked, (rows + 1) // 2)


@given(st.lists(images, min_size=1, max_size=6))
def test_residuals_follow_their_rows(batch):
    halves, end, residuals = halve(batch), 0, []
    for image in batch:
        begin, end = end, end + image.rows
        if not image.stays:
            numbers = torch.arange(begin, end).float()[:, None]
            residuals.append(RowResiduals(slice(begin, end), [numbers, numbers + 0.5]))
    for half in (halves.here, halves.there):
        added = torch.full((len(half), 1), -1.0)
        for each in among(residuals, half):
            added[each.rows] = each.residuals[0]
            assert torch.equal(each.residuals[1], added[each.rows] + 0.5)
        steered = {row for each in residuals for row in range(each.rows.start, each.rows.stop)}
        assert added[:, 0].tolist() == [float(row) if row in steered else -1.0 for row in half]
