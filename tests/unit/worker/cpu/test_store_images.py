import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from pydantic import SecretStr

from core.settings import Settings
from storage.objects.store import open_objects
from worker.cpu import store_images as finish
from worker.cpu.store_images import Parcel, encode_png


def noise(seed, shape=(24, 16, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def objects(tmp_path):
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s"))
    finish.start(settings)
    return open_objects(settings)


def test_pixels_survive_the_encoding():
    pixels = noise(0)
    read = np.asarray(Image.open(BytesIO(encode_png(pixels))))
    np.testing.assert_array_equal(read, pixels)


def test_images_are_stored_under_their_claim_with_their_digest(objects):
    parcel = Parcel(prefix="t/j/2", images=(noise(1), noise(2)), seeds=(7, 8))
    [stored] = finish.store_parcels([parcel])
    assert [(i.key, i.seed, i.width, i.height) for i in stored] == [
        ("t/j/2/0.png", 7, 16, 24),
        ("t/j/2/1.png", 8, 16, 24),
    ]
    for image in stored:
        assert hashlib.sha256(objects.get(image.key)).hexdigest() == image.sha256


def test_a_job_whose_images_cannot_be_encoded_fails_alone(objects):
    bad = Parcel(prefix="t/bad/1", images=(np.zeros((2, 2, 7), np.uint8),), seeds=(0,))
    good = Parcel(prefix="t/good/1", images=(noise(1),), seeds=(0,))
    first, second = finish.store_parcels([bad, good])
    assert isinstance(first, Exception)
    assert second[0].key == "t/good/1/0.png"
