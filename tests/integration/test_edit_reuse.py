"""Does an edit that takes its template's activations stay the edit it is?"""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from catalog.masking.config import MaskingConfig
from core.job import Edit, Quality, Task
from tests.cases import rarely_but
from tests.integration.test_edit_parity import some_inputs
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder
from worker.masking.activations import Activations
from worker.masking.cache import RecordingCache
from worker.masking.recording import RecordingKey

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

EDIT = Edit(template="t/template.png", template_sha256="ab", mask="t/mask.png")
SAVE = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}
ALL_TOKENS = MaskingConfig(dilate=99, full_share=0.0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    @cache
    def save(name):
        folder = tmp_path_factory.mktemp(name)
        return folder, SAVE[name](folder)

    return save


@pytest.fixture(params=rarely_but(["sdxl", "sd3", "flux"], SAVE))
def load(request, saved):
    """Load the same model again and again, as workers do that know nothing of each other."""
    return partial(load_recorder, *saved(request.param))


@pytest.fixture
def recorder(load):
    return load()


def an_edit(recorder, name, **changes):
    of = {"edit": EDIT} | changes
    return a_job(name, model=recorder.model.name, task=Task.EDIT, steps=6, **of)


def make(recorder, job, inputs):
    return engine_images(recorder, [(0, job)], inputs={job.id: inputs})[job.id][0]


def key_of(recorder, job):
    is_guided = recorder.model.is_guided(job.request.guidance)
    return RecordingKey.of(job.request, job.request.seed, recorder.model.name, is_guided=is_guided)


def opened(recorder, job, inputs):
    return recorder.open(job.request, job.request.seed, inputs)


def rows_of(recorder, job, inputs):
    return opened(recorder, job, inputs).rows


def test_the_first_edit_draws_its_template_beside_itself_and_is_not_changed_by_it(recorder):
    job, inputs = an_edit(recorder, "first"), some_inputs(1)
    plain, rows = make(recorder, job, inputs), rows_of(recorder, job, inputs)
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    assert rows_of(recorder, job, inputs) == rows + 1
    assert difference(make(recorder, job, inputs), plain) <= 1e-4
    assert rows_of(recorder, job, inputs) == rows


def test_an_edit_that_computes_every_token_is_the_edit_in_full(recorder):
    job, inputs = an_edit(recorder, "j"), some_inputs(1)
    plain = make(recorder, job, inputs)
    recorder.runner.overlays.reuse(Activations(2**30), ALL_TOKENS)
    for name in ("first", "second"):
        assert difference(make(recorder, replace(job, id=name), inputs), plain) <= 1e-4


def test_a_later_edit_with_another_mask_and_prompt_is_close_to_the_edit_in_full(recorder):
    other = an_edit(recorder, "other", prompt="another thing")
    plain = make(recorder, other, some_inputs(2))
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig(full_share=0.0))
    make(recorder, an_edit(recorder, "first"), some_inputs(1))
    assert not opened(recorder, other, some_inputs(2)).reuse.is_recording
    reused = make(recorder, other, some_inputs(2))
    assert 0 < np.abs(reused - plain).mean() < 0.05


def test_edits_that_reuse_share_a_batch_and_stay_themselves(recorder):
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig(crop=True))
    make(recorder, an_edit(recorder, "first"), some_inputs(1))
    inputs = {f"e{i}": some_inputs(i, strength=1.0 - i / 5) for i in range(3)}
    jobs = [(0, an_edit(recorder, name, prompt=name)) for name in inputs]
    jobs.append((1, a_job("new", model=recorder.model.name, steps=6)))
    recorder.batches.clear()
    together = engine_images(recorder, jobs, inputs=inputs)
    assert max(recorder.batches) > 2
    for _, job in jobs:
        alone = engine_images(recorder, [(0, job)], inputs=inputs)[job.id]
        assert difference(together[job.id][0], alone[0]) <= 1e-4


def test_an_edit_without_guidance_reuses_a_template_that_was_told_nothing(recorder):
    first = an_edit(recorder, "first", guidance=1.0)
    plain = make(recorder, first, some_inputs(1))
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    assert rows_of(recorder, first, some_inputs(1)) == 2
    assert difference(make(recorder, first, some_inputs(1)), plain) <= 1e-4
    assert rows_of(recorder, an_edit(recorder, "later", guidance=1.0), some_inputs(2)) == 1
    of_another_scale = an_edit(recorder, "other", guidance=3.0)
    assert recorder.open(of_another_scale.request, 0, some_inputs(2)).reuse.is_recording


def test_exact_quality_large_masks_and_other_noise_reuse_nothing(recorder):
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    make(recorder, an_edit(recorder, "first"), some_inputs(1))
    exact = an_edit(recorder, "exact", quality=Quality.EXACT)
    assert recorder.open(exact.request, 0, some_inputs(1)).reuse is None
    large = replace(some_inputs(1), mask=np.full((32, 32), 255, np.uint8))
    assert recorder.open(an_edit(recorder, "large").request, 0, large).reuse is None
    assert recorder.open(exact.request, 1, some_inputs(1)).reuse is None
    other_noise = recorder.open(an_edit(recorder, "other").request, 1, some_inputs(1))
    assert other_noise.reuse.feed is None


def test_a_worker_that_starts_again_goes_on_with_what_its_folder_has(recorder, load, tmp_path):
    job, inputs, folder = an_edit(recorder, "j"), some_inputs(1), tmp_path / "activations"
    before = Activations(2**30, RecordingCache(folder, 2**30))
    recorder.runner.overlays.reuse(before, MaskingConfig())
    make(recorder, job, inputs)
    before.settle()
    reused = make(recorder, replace(job, id="second"), inputs)
    for budget in (2**30, 1):  # all of it in memory, or each step from its file
        after = Activations(budget, RecordingCache(folder, 2**30))
        again = load()
        again.runner.overlays.reuse(after, MaskingConfig())
        after.prefetch(key_of(recorder, job))
        after.settle()
        assert not opened(again, job, inputs).reuse.is_recording
        assert difference(make(again, job, inputs), reused) <= 1e-4


def test_a_recording_that_breaks_under_an_edit_is_computed_instead(recorder, load, tmp_path):
    job, inputs = an_edit(recorder, "j"), some_inputs(1)
    plain = make(recorder, job, inputs)
    shelf = RecordingCache(tmp_path / "activations", 2**30)
    before = Activations(2**30, shelf)
    recorder.runner.overlays.reuse(before, MaskingConfig())
    make(recorder, job, inputs)
    before.settle()
    after = Activations(1, shelf)
    again = load()
    again.runner.overlays.reuse(after, MaskingConfig(full_share=0.0))
    after.prefetch(key_of(recorder, job))
    after.settle()
    assert not opened(again, job, inputs).reuse.is_recording
    for path in (tmp_path / "activations").rglob("*.safetensors"):
        path.write_bytes(b"broken")
    assert difference(make(again, job, inputs), plain) <= 1e-4


def test_a_template_recorded_beforehand_spares_its_first_edit_the_recording(recorder, load):
    first, inputs = an_edit(recorder, "first"), some_inputs(1)
    rows = rows_of(recorder, first, inputs)
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    record = an_edit(recorder, "record", prompt="", edit=replace(EDIT, mask=""))
    nothing = replace(inputs, mask=np.zeros_like(inputs.mask))
    assert rows_of(recorder, record, nothing) == 1
    make(recorder, record, nothing)
    assert rows_of(recorder, first, inputs) == rows
    alone = make(recorder, first, inputs)
    again = load()
    again.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    make(again, an_edit(again, "other"), some_inputs(2))
    # Rows in company differ in their last digit, which may tip what is rounded to eight bits.
    assert np.abs(make(again, first, inputs) - alone).mean() <= 1e-3


def test_a_recording_made_beforehand_holds_what_one_beside_an_edit_holds(recorder):
    held = []
    beside, nothing = some_inputs(1), replace(some_inputs(1), mask=np.zeros((32, 32), np.uint8))
    record = an_edit(recorder, "record", prompt="", edit=replace(EDIT, mask=""))
    recorder.runner.overlays.reuse(Activations(2**30), MaskingConfig())
    for job, inputs in ((an_edit(recorder, "first"), beside), (record, nothing)):
        sample = recorder.open(job.request, job.request.seed, inputs)
        recorder.forward([sample])
        held.append({name: each.values.shape for name, each in first_step(sample).items()})
    assert held[0] == held[1]
    assert any("caption" in name for name in held[0]) == (recorder.model.family == "sd3")


def first_step(sample):
    """What the blocks made of the template at the step just run."""
    return sample.reuse.recording.steps[0]
