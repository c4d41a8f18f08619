import hashlib
import os
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from pydantic import SecretStr
from safetensors.numpy import save

from core.errors import EngineError, ObjectMissing, ObjectsUnavailable
from core.job import Control, Edit
from core.latents import Start
from core.placement import Placement
from core.request.init_image import InitImage
from core.request.upscale import Upscale
from core.settings import Settings
from core.uploads.embedding import AppliedEmbedding
from core.uploads.ip_adapter import AppliedIpAdapter
from storage.objects.store import open_objects
from tests.jobs import a_request
from worker.cpu import store_images
from worker.cpu.inputs import (
    MAX_READERS,
    read_conditions,
    read_edit,
    read_init,
    read_inputs,
    read_picture,
    read_start,
    read_words,
)

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
    store_images.open_store(settings)
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
    store_images.put_latents(start.key, b"latents")
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


def test_a_picture_to_start_from_is_scaled_to_the_job_and_comes_with_the_conditions(objects):
    for key in ("t/j/image.png", "t/j/0.png"):
        objects.put(key, png(TEMPLATE), "image/png")
    init = InitImage(image="t/j/image.png", strength=0.6)
    controls = (Control(controlnet="edges", image="t/j/0.png"),)
    read = read_init(a_request(init_image=init, controls=controls, width=32, height=48))
    assert (read.image.shape, read.strength) == ((48, 32, 3), 0.6)
    scaled = Image.fromarray(TEMPLATE).resize((32, 48), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(read.image, np.asarray(scaled))
    assert len(read.conditions) == 1
    same = read_init(a_request(init_image=init, width=16, height=24))
    np.testing.assert_array_equal(same.image, TEMPLATE)


def test_a_picture_to_enlarge_is_read_as_it_is(objects):
    objects.put("t/j/picture.png", png(TEMPLATE), "image/png")
    asked = a_request(upscale=Upscale(image="t/j/picture.png"), width=16, height=24)
    np.testing.assert_array_equal(read_picture(asked).image, TEMPLATE)
    with pytest.raises(EngineError, match="enlarges no picture"):
        read_picture(a_request())


def test_conditions_are_scaled_to_the_job_as_stock_scales_them(objects):
    controls = tuple(Control(controlnet="edges", image=f"t/j/{i}.png") for i in range(2))
    whole = np.asarray(Image.fromarray(TEMPLATE).resize((32, 32), Image.Resampling.LANCZOS))
    for control, pixels in zip(controls, (TEMPLATE, whole), strict=True):
        objects.put(control.image, png(pixels), "image/png")
    scaled, kept = read_conditions(a_request(controls=controls)).images
    np.testing.assert_array_equal(scaled, whole)
    np.testing.assert_array_equal(kept, whole)


def test_an_edit_brings_the_conditions_of_its_controls(objects):
    put(objects, png(TEMPLATE), png(MASK))
    control = Control(controlnet="edges", image="t/j/condition.png")
    objects.put(control.image, png(TEMPLATE), "image/png")
    asked = a_request(edit=EDIT, controls=(control,), width=16, height=24)
    inputs = read_edit(asked)
    np.testing.assert_array_equal(inputs.template, TEMPLATE)
    np.testing.assert_array_equal(inputs.conditions, [TEMPLATE])
    assert read_edit(replace(asked, controls=())).conditions == ()


def test_a_condition_that_is_gone_is_named(objects):
    request = a_request(controls=(Control(controlnet="edges", image="t/j/gone.png"),))
    with pytest.raises(EngineError, match="condition of this job is gone"):
        read_conditions(request)


WORD = AppliedEmbedding(
    id="cat",
    key="embeddings/t/cat.safetensors",
    models=("m",),
    token="<cat>",
    num_vectors=2,
    sha256=hashlib.sha256(save({"<cat>": np.ones((2, 4), np.float32)})).hexdigest(),
)


def test_learned_words_come_with_whatever_else_a_job_brings(objects):
    data = save({"<cat>": np.ones((2, 4), np.float32)})
    objects.put(WORD.key, data, "application/octet-stream")
    words = read_words(a_request(embeddings=(WORD,)))
    assert words.rest is None
    [vectors] = words.vectors["cat"]
    np.testing.assert_array_equal(vectors, np.ones((2, 4)))
    put(objects, png(TEMPLATE), png(MASK))
    both = read_words(a_request(embeddings=(WORD,), edit=EDIT))
    np.testing.assert_array_equal(both.rest.template, TEMPLATE)


def test_the_picture_of_an_ip_adapter_comes_as_it_is_of_any_size(objects):
    use = AppliedIpAdapter(id="plain", image="shown.png", models=("m",))
    with pytest.raises(EngineError, match="the picture of the IP-Adapter of this job is gone"):
        read_words(a_request(ip_adapter=use))
    objects.put(use.image, png(TEMPLATE[:8]), "image/png")
    words = read_words(a_request(ip_adapter=use))
    np.testing.assert_array_equal(words.shown, TEMPLATE[:8])
    assert (words.vectors, words.rest) == ({}, None)


def test_learned_words_that_are_gone_or_changed_are_named(objects):
    with pytest.raises(EngineError, match="embedding cat is gone"):
        read_words(a_request(embeddings=(WORD,)))
    objects.put(WORD.key, b"other", "application/octet-stream")
    with pytest.raises(EngineError, match="embedding cat is damaged"):
        read_words(a_request(embeddings=(WORD,)))
