"""Which blocks does an edit load?"""

import pytest
import torch

from catalog.masking.costs import BlockShape, CostLine, MaskingCosts
from tests.models import OF_DIFFUSERS, save_sd
from tests.unit.worker.test_activations import KEY
from worker.families.sd import SdRunner
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import MaskedRow, caption_of
from worker.masking.cache import RecordingCache
from worker.masking.planner import Planner, sizes_of
from worker.masking.quantised import FlatStep
from worker.masking.recording import Recording

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

NOTHING = CostLine(start_s=0.0, per_unit_s=(0.0,), r2=1.0)
ROW = MaskedRow(cells=torch.eye(16), dilate=0, cached={})


def costs(load_s, r2=1.0):
    compute = CostLine(start_s=1.0, per_unit_s=(1e-3, 1e-3), r2=r2)
    load = CostLine(start_s=load_s, per_unit_s=(0.0,), r2=1.0)
    return MaskingCosts(compute=compute, load=load, copy=NOTHING)


@pytest.fixture
def blocks(tmp_path):
    model = save_sd(tmp_path)
    runner = SdRunner.load(tmp_path, model, device="cpu", dtype="float32")
    return MaskedBlocks(runner.unet, runner.architecture.cuts)


@pytest.fixture
def recording(blocks):
    made = Recording()
    made.keep(0, {name: torch.ones(256, 8) for name in blocks.names})
    return made


def test_without_costs_to_trust_all_of_it_is_used(blocks, recording):
    for known in (None, costs(1e9, r2=0.5)):
        choose = Planner(blocks, known).choose(recording, ROW, 2)
        assert choose(False) == blocks.names


def test_a_caption_is_loaded_behind_the_picture_of_its_block(blocks, recording):
    first, *others = blocks.names
    made = recording.steps[0]
    captioned = {first: made[first], caption_of(first): made[first]} | dict(made)
    recording.steps[0] = FlatStep.of(captioned)
    for known in (None, costs(1e-9)):
        loaded = Planner(blocks, known).choose(recording, ROW, 2)(True)
        assert list(loaded) == [first, caption_of(first), *others]


def test_a_slow_file_is_not_waited_for_and_memory_is_used(blocks, recording):
    choose = Planner(blocks, costs(1e9)).choose(recording, ROW, 2)
    assert list(choose(False)) == []
    assert list(choose(True)) == blocks.names


def test_of_outputs_as_many_blocks_are_loaded_as_arrive_in_time(blocks, recording):
    planner = Planner(blocks, costs(0.0))
    times = planner.times(costs(0.0), recording, ROW, 2, is_in_memory=False)
    full_s = sum(block.full for block in times.values())
    slow = costs(0.6 * full_s)  # two of them would take longer than computing all
    loaded = list(Planner(blocks, slow).choose(recording, ROW, 2)(False))
    assert len(loaded) == 1 < len(blocks.names)


def test_a_block_is_expected_to_take_what_its_own_size_and_weights_cost(blocks, recording):
    known = costs(3.0)
    times = Planner(blocks, known).times(known, recording, ROW, 2, is_in_memory=False)
    assert list(times) == blocks.names
    for name, expected in times.items():
        shape = BlockShape(tokens=256, channels=8, weights=blocks.weights[name])
        assert expected == known.times(shape, 16, 2, is_in_memory=False)


def test_sizes_are_known_wherever_the_recording_lies(tmp_path, blocks, recording):
    files = RecordingCache(tmp_path / "shelf", 2**30).save(KEY.digest, recording.steps)
    expected = dict.fromkeys(blocks.names, (256, 8))
    assert sizes_of(recording) == sizes_of(Recording(files=files)) == expected
    files[0].write_bytes(b"broken")
    assert sizes_of(Recording(files=files)) == {}


def test_blocks_are_named_in_the_order_they_run(blocks):
    order = [name.partition("_")[0] for name in blocks.names]
    assert order == sorted(order, key=["down", "mid", "up"].index)
