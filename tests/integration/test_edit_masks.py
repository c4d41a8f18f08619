"""Masks at the limits, on the real engine: thin strokes, dots, nothing, everything."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.masking.config import MaskingConfig
from core.job import Quality
from tests.cases import rarely_but
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT, SAVE, an_edit, key_of, make, opened
from tests.models import OF_DIFFUSERS
from tests.stock import difference, load_recorder
from worker.masking.activations import Activations

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

SIDE = 32


@pytest.fixture(scope="module", params=rarely_but(["sdxl", "sd3"], SAVE))
def recorder(request, tmp_path_factory):
    """A model that has recorded the template."""
    folder = tmp_path_factory.mktemp(request.param)
    recorder = load_recorder(folder, SAVE[request.param](folder))
    recorder.activations = Activations(2**30)
    recorder.runner.overlays.reuse(recorder.activations, MaskingConfig())
    make(recorder, recording(recorder), inputs_of())
    return recorder


def recording(recorder):
    return an_edit(recorder, "record", prompt="", edit=replace(EDIT, mask=""))


def inputs_of(*white, strength=1.0):
    """What an edit brings whose mask is white at these pixels."""
    mask = np.zeros((SIDE, SIDE), np.uint8)
    for at in white:
        mask[at] = 255
    return replace(some_inputs(1), mask=mask, strength=strength)


def template(recorder):
    return make(recorder, an_edit(recorder, "none"), inputs_of())


@given(
    at=st.integers(0, SIDE - 1), begin=st.integers(0, SIDE - 1), length=st.integers(1, SIDE),
    is_upright=st.booleans(), strength=st.sampled_from((1.0, 0.5)),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_a_stroke_of_one_pixel_is_edited_wherever_it_is(
    recorder, at, begin, length, is_upright, strength
):
    along = slice(begin, begin + length)
    inputs = inputs_of((along, at) if is_upright else (at, along), strength=strength)
    edit = an_edit(recorder, "stroke")
    assert opened(recorder, edit, inputs).reuse.feed is not None
    made = make(recorder, edit, inputs)
    assert difference(made, template(recorder)) > 0
    exact = make(recorder, an_edit(recorder, "exact", quality=Quality.EXACT), inputs)
    assert np.abs(made - exact).mean() < 0.05


@pytest.mark.long
def test_a_stroke_of_one_pixel_is_edited_at_every_offset(recorder):
    unchanged = template(recorder)
    for at in range(SIDE):
        for stroke in ((at, slice(None)), (slice(None), at)):
            made = make(recorder, an_edit(recorder, "stroke"), inputs_of(stroke))
            assert difference(made, unchanged) > 0, stroke


@pytest.mark.parametrize("row", [0, SIDE - 1])
@pytest.mark.parametrize("column", [0, SIDE - 1])
def test_a_dot_in_a_corner_is_edited(recorder, row, column):
    made = make(recorder, an_edit(recorder, "dot"), inputs_of((row, column)))
    assert difference(made, template(recorder)) > 0


def test_a_full_mask_is_an_edit_in_full(recorder):
    edit, inputs = an_edit(recorder, "full"), inputs_of(slice(None))
    assert opened(recorder, edit, inputs).reuse is None
    exact = make(recorder, replace(edit, id="exact"), inputs)
    assert difference(make(recorder, edit, inputs), exact) == 0


@pytest.mark.parametrize("quality", Quality)
def test_an_empty_mask_gives_the_template_without_a_step(recorder, quality):
    recorder.batches.clear()
    made = make(recorder, an_edit(recorder, "none", quality=quality), inputs_of())
    assert not recorder.batches
    before = opened(recorder, an_edit(recorder, "one"), inputs_of((0, 0)))
    assert difference(made, recorder.decode(replace_latents(before))) <= 1e-4


def replace_latents(sample):
    sample.latents = sample.canvas.template
    return sample


def test_an_empty_mask_records_what_is_not_recorded(recorder):
    edit = an_edit(recorder, "none", seed=7)
    assert recorder.open(edit.request, 7, inputs_of()).reuse.is_recording
    recorder.batches.clear()
    made = make(recorder, edit, inputs_of())
    assert recorder.batches
    assert difference(make(recorder, replace(edit, id="again"), inputs_of()), made) == 0


def test_a_template_is_recorded_once(recorder):
    job = recording(recorder)
    first = recorder.activations.find(key_of(recorder, job))
    recorder.batches.clear()
    image = make(recorder, replace(job, id="second"), inputs_of())
    assert not recorder.batches
    assert recorder.activations.find(key_of(recorder, job)) is first
    assert difference(image, template(recorder)) == 0
