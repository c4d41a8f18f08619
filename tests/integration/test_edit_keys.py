"""Is an edit that takes keys and values of its template the edit that takes its outputs?"""

from dataclasses import replace

import numpy as np
import pytest

from catalog.masking.config import Keep, MaskingConfig
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import an_edit, first_step, key_of, make, opened
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3
from tests.stock import difference, load_recorder
from worker.masking.activations import Activations
from worker.masking.cache import RecordingCache

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

KEYS = MaskingConfig(full_share=0.0, keeps=Keep.KEYS)
OUTPUTS = replace(KEYS, keeps=Keep.OUTPUTS)


@pytest.fixture(params=[save_sd3, save_flux])
def model(request, tmp_path):
    return request.param(tmp_path)


def test_an_edit_by_keys_is_close_to_the_edit_in_full_and_to_that_by_outputs(model, tmp_path):
    images = []
    for knobs in (None, OUTPUTS, KEYS):
        recorder = load_recorder(tmp_path, model)
        if knobs is not None:
            recorder.runner.overlays.reuse(Activations(2**30), knobs)
            make(recorder, an_edit(recorder, "first"), some_inputs(1))
        other = an_edit(recorder, "other", prompt="another thing")
        images.append(make(recorder, other, some_inputs(2)))
    plain, by_outputs, by_keys = images
    assert 0 < np.abs(by_keys - plain).mean() < 0.05
    assert 0 < np.abs(by_keys - by_outputs).mean() < 0.01


def test_a_step_of_which_the_last_value_is_damaged_runs_in_full(model, tmp_path):
    recorder, shelf = (
        load_recorder(tmp_path, model),
        RecordingCache(tmp_path / "activations", 2**30),
    )
    job, inputs = an_edit(recorder, "j"), some_inputs(1)
    plain = make(recorder, job, inputs)
    before, after = Activations(2**30, shelf), Activations(1, shelf)
    recorder.runner.overlays.reuse(before, KEYS)
    make(recorder, job, inputs)
    before.settle()
    again = load_recorder(tmp_path, model)
    again.runner.overlays.reuse(after, KEYS)
    after.prefetch(replace(key_of(recorder, job), keeps=Keep.KEYS))
    after.settle()
    assert not opened(again, job, inputs).reuse.is_recording
    for path in (tmp_path / "activations").rglob("*.safetensors"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert difference(make(again, job, inputs), plain) <= 1e-4


def test_a_unet_that_is_asked_for_keys_keeps_its_outputs(tmp_path):
    recorder = load_recorder(tmp_path, save_sd(tmp_path))
    recorder.runner.overlays.reuse(Activations(2**30), KEYS)
    sample = opened(recorder, an_edit(recorder, "first"), some_inputs(1))
    recorder.forward([sample])
    assert list(first_step(sample)) == recorder.runner.overlays._masking._blocks.names
