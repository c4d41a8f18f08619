import os
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from pydantic import SecretStr

from core.errors import EngineError, ObjectMissing, ObjectsUnavailable
from core.job import Control, Edit
from core.latents import Start
from core.placement import Placement
from core.settings import Settings
from storage.objects.store import open_objects
from tests.jobs import a_request
from worker.cpu import store_images as finish
from worker.cpu.inputs import MAX_READERS, read_conditions, read_inputs, read_start

EDIT = Edit(template="t/j/template.png", template_sha256="ab", mask="t/j/mask.png", strength=0.5)
TEMPLATE = np.random.default_rng(0).integers(0, 256, (24, 16, 3), dtype=np.uint8)
MASK = np.where(np.arange(24 * 16).reshape(24, 16) % 3, 255, 0).astype(np.uint8)


def png(pixels):
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def objects(tmp_path):
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s"))
    finish.start(settings)
    return open_objects(settings)


def put(objects, template, mask):
    objects.put(EDIT.template, template, "image/png")
    objects.put(EDIT.mask, mask, "image/png")


def test_inputs_are_what_was_stored(objects):
    put(objects, png(TEMPLATE), png(MASK))
    inputs = read_inputs(EDIT)
    np.testing.assert_array_equal(inputs.template, TEMPLATE)
    np.testing.assert_array_equal(inputs.mask, MASK)
    assert inputs.strength == 0.5


def test_what_is_gone_or_damaged_is_named(objects):
    with pytest.raises(EngineError, match="template of this job is gone"):
        read_inputs(EDIT)
    put(objects, png(TEMPLATE), png(MASK)[:40])
    with pytest.raises(EngineError, match="mask of this job is damaged"):
        read_inputs(EDIT)


def test_images_of_two_sizes_are_refused(objects):
    put(objects, png(TEMPLATE), png(MASK[:8]))
    with pytest.raises(EngineError, match="16x24 and 16x8"):
        read_inputs(EDIT)


def test_without_a_mask_nothing_is_made_anew(objects):
    put(objects, png(TEMPLATE), png(MASK))
    inputs = read_inputs(replace(EDIT, mask=""))
    assert inputs.mask.shape == (24, 16) and not inputs.mask.any()


def test_latents_are_read_as_they_were_put(objects):
    start = Start(key="latents/t/j/10.safetensors", similarity=0.9)
    placed = Placement(queue="gen.m", model="m", level="m@10", skipped_steps=10, start=start)
    with pytest.raises(ObjectMissing):
        read_start(placed, 5.0)
    finish.put_latents(start.key, b"latents")
    borrowed = read_start(placed, 5.0)
    assert (borrowed.skipped_steps, borrowed.data) == (10, b"latents")


def test_a_store_that_hangs_keeps_few_threads_and_nobody_waiting(objects, tmp_path):
    start = Start(key="latents/t/hangs/10.safetensors", similarity=0.9)
    placed = Placement(queue="gen.m", model="m", level="m@10", skipped_steps=10, start=start)
    pipe = tmp_path / "objects" / start.key
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)  # whoever reads it waits for somebody who writes
    for _ in range(MAX_READERS):
        with pytest.raises(ObjectsUnavailable, match="no answer"):
            read_start(placed, 0.01)
    with pytest.raises(ObjectsUnavailable, match="hang"):
        read_start(placed, 5.0)
    pipe.open("wb").close()
    assert answers_again(replace(placed, start=replace(start, key="latents/t/gone/10")))


def answers_again(placed):
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        try:
            read_start(placed, 5.0)
        except ObjectMissing:
            return True
        except ObjectsUnavailable:  # those that hung are still on their way out
            time.sleep(0.01)
    return False


def test_conditions_are_scaled_to_the_job_as_stock_scales_them(objects):
    controls = tuple(Control(controlnet="edges", image=f"t/j/{i}.png") for i in range(2))
    whole = np.asarray(Image.fromarray(TEMPLATE).resize((32, 32), Image.Resampling.LANCZOS))
    for control, pixels in zip(controls, (TEMPLATE, whole), strict=True):
        objects.put(control.image, png(pixels), "image/png")
    scaled, kept = read_conditions(a_request(controls=controls)).images
    np.testing.assert_array_equal(scaled, whole)
    np.testing.assert_array_equal(kept, whole)


def test_a_condition_that_is_gone_is_named(objects):
    request = a_request(controls=(Control(controlnet="edges", image="t/j/gone.png"),))
    with pytest.raises(EngineError, match="condition of this job is gone"):
        read_conditions(request)
