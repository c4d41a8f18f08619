import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from pydantic import SecretStr

from core.request.output import LOSSLESS, Output, OutputFormat
from core.settings import Settings
from storage.objects.store import open_objects
from worker.cpu import store_images
from worker.cpu.store_images import Parcel, encode_image


def noise(seed, shape=(24, 16, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def objects(tmp_path):
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s"))
    store_images.open_store(settings)
    return open_objects(settings)


def test_pixels_survive_the_encoding():
    pixels = noise(0)
    read = np.asarray(Image.open(BytesIO(encode_image(pixels, LOSSLESS))))
    np.testing.assert_array_equal(read, pixels)


def test_images_are_stored_under_their_claim_with_their_digest(objects):
    parcel = Parcel(prefix="t/j/2", images=(noise(1), noise(2)), seeds=(7, 8))
    [stored] = store_images.store_parcels([parcel])
    assert [(i.key, i.seed, i.width, i.height) for i in stored] == [
        ("t/j/2/0.png", 7, 16, 24),
        ("t/j/2/1.png", 8, 16, 24),
    ]
    for image in stored:
        assert hashlib.sha256(objects.get(image.key)).hexdigest() == image.sha256


def test_a_job_whose_images_cannot_be_encoded_fails_alone(objects):
    bad = Parcel(prefix="t/bad/1", images=(np.zeros((2, 2, 7), np.uint8),), seeds=(0,))
    good = Parcel(prefix="t/good/1", images=(noise(1),), seeds=(0,))
    first, second = store_images.store_parcels([bad, good])
    assert isinstance(first, Exception)
    assert second[0].key == "t/good/1/0.png"


def smooth():
    """A picture as models make them: lossy formats keep what changes slowly."""
    rows, columns = np.mgrid[0:48, 0:32]
    return np.stack([rows * 5, columns * 7, rows + columns], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("format_", OutputFormat)
def test_an_image_is_written_as_it_is_asked_for_and_read_back(objects, format_):
    output = Output.of(format_, None)
    [[stored]] = store_images.store_parcels(
        [Parcel(prefix="t/j/1", images=(smooth(),), seeds=(0,), output=output)]
    )
    data = objects.get(stored.key)
    with Image.open(BytesIO(data)) as image:
        assert (image.format, image.size) == (format_.name, (32, 48))
        away = np.abs(np.asarray(image.convert("RGB"), int) - smooth()).mean()
    assert away <= (4 if format_.is_lossy else 0)
    assert stored.key.endswith(f".{format_.ending}")
    assert OutputFormat.of_key(stored.key) is format_
    assert data == encode_image(smooth(), output)


@pytest.mark.parametrize("format_", [each for each in OutputFormat if each.is_lossy])
def test_a_lower_quality_takes_fewer_bytes(format_):
    sizes = [len(encode_image(noise(0), Output.of(format_, quality))) for quality in (10, 60, 100)]
    assert sizes == sorted(set(sizes))
