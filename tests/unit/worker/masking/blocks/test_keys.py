"""Does a block that goes by keys and values of a template compute what one in full does?"""

from functools import partial

import pytest
import torch

from catalog.masking.config import Keep
from tests.models import CUTS, make_flux_transformer, make_transformer, make_unet
from tests.unit.worker.test_activations import KEY
from tests.unit.worker.test_masking import MODELS, a_mask, arguments, call, pick
from tests.unit.worker.test_planner import ROW, costs
from worker.families.flux import pack
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import MaskedRow, RecordedRow, caption_of
from worker.masking.cache import RecordingCache
from worker.masking.planner import Planner
from worker.masking.recording import Recording

TRANSFORMERS = {name: make for name, make in MODELS.items() if name != "unet"}


@pytest.fixture(params=TRANSFORMERS)
def model(request):
    return TRANSFORMERS[request.param]()


@pytest.fixture
def blocks(model):
    return MaskedBlocks(model, CUTS)


def a_recorded_row(**changes):
    return RecordedRow(keeps=Keep.KEYS, **changes)


def record(model, blocks, args):
    rows = [a_recorded_row() for _ in args["timestep"]]
    out = call(model, blocks, args, rows)
    return out, [row.outputs for row in rows]


def computed(out, row):
    """What a model predicts for the tokens that a row computes."""
    tokens = out if out.ndim == 2 else pack(out[None])
    return tokens.reshape(64, -1)[row.tokens(64)]


def test_to_be_listened_to_changes_nothing_and_leaves_keys_and_values_of_the_picture(model, blocks):
    args = arguments(model, 2)
    plain = call(model, blocks, args)
    out, kept = record(model, blocks, args)
    assert torch.equal(out, plain)
    for each in kept:
        assert list(each) == blocks.all_parts(Keep.KEYS)
        assert {len(tokens) for tokens in each.values()} == {64}


def test_with_its_own_keys_a_row_predicts_under_its_mask_what_it_does_in_full(model, blocks):
    args = arguments(model, 3)
    full, kept = record(model, blocks, args)
    rows = [MaskedRow(cells=a_mask(at), dilate=at, cached=kept[at]) for at in range(3)]
    out = call(model, blocks, args, rows)
    assert torch.isfinite(out).all()
    assert not torch.allclose(out, full, atol=1e-3)
    for at, row in enumerate(rows):
        expected = computed(full[at], row)
        torch.testing.assert_close(computed(out[at], row), expected, atol=1e-5, rtol=1e-5)


def test_rows_of_a_mixed_batch_are_the_rows_alone(model, blocks):
    args, other = arguments(model, 5), arguments(model, 5, seed=1)
    _, kept = record(model, blocks, other)
    outputs = RecordedRow()
    call(model, blocks, pick(other, 3), [outputs])
    makes = [
        partial(MaskedRow, cells=a_mask(0), dilate=0, cached=kept[0]),
        a_recorded_row,
        partial(MaskedRow, cells=a_mask(4), dilate=1, cached=kept[2]),
        partial(MaskedRow, cells=a_mask(1), dilate=1, cached=outputs.outputs),
        a_recorded_row,
    ]
    rows = [make() for make in makes]
    together = call(model, blocks, args, rows)
    for at, make in enumerate(makes):
        row = make()
        alone = call(model, blocks, pick(args, at), [row])
        torch.testing.assert_close(together[at : at + 1], alone, atol=1e-4, rtol=1e-4)
        if isinstance(row, RecordedRow):
            torch.testing.assert_close(rows[at].outputs, row.outputs, atol=1e-4, rtol=1e-4)


def test_a_row_told_what_the_template_was_takes_its_caption_too():
    model = make_transformer()
    blocks, args = MaskedBlocks(model, CUTS), arguments(model, 2)
    recorded = a_recorded_row(has_caption=True)
    full = call(model, blocks, args, [recorded, None])
    captions = [name for name in map(caption_of, blocks.names) if name in recorded.outputs]
    assert len(captions) == len(blocks.names) - 1  # the last makes no caption
    row = MaskedRow(cells=a_mask(2), dilate=1, cached=recorded.outputs, is_told_alike=True)
    out = call(model, blocks, args, [row, None])
    torch.testing.assert_close(computed(out[0], row), computed(full[0], row), atol=1e-5, rtol=1e-5)


def test_only_what_is_made_of_transformers_can_keep_keys(model, blocks):
    assert blocks.can_keep(Keep.KEYS)
    unet = MaskedBlocks(make_unet(cross_attention_dim=64), CUTS)
    assert unet.can_keep(Keep.OUTPUTS)
    assert not unet.can_keep(Keep.KEYS)


def test_keys_are_loaded_for_all_blocks_or_for_none(tmp_path):
    blocks = MaskedBlocks(make_flux_transformer(num_layers=1, num_single_layers=1), CUTS)
    parts = blocks.all_parts(Keep.KEYS)
    kept = Recording()
    kept.keep(0, {name: torch.ones(256, 8) for name in parts})
    on_disk = Recording(files=RecordingCache(tmp_path, 2**30).save(KEY.digest, kept.steps))
    for known in (None, costs(1e-9), costs(1e9, r2=0.5)):
        assert list(Planner(blocks, known, Keep.KEYS).choose(on_disk, ROW, 1)(False)) == parts
    slow = Planner(blocks, costs(1e9), Keep.KEYS).choose(on_disk, ROW, 1)
    assert list(slow(False)) == []
    assert list(slow(True)) == parts
