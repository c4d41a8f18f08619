from itertools import count

import pytest

from storage.fakes import MemoryObjects
from storage.objects.recordings import manifest_key, step_key, trim


@pytest.fixture
def objects():
    """Keep three recordings of two steps, 10 bytes a step and 4 a list, that come in turn."""
    ticks = count()
    kept = MemoryObjects(clock=lambda: float(next(ticks)))
    for digest in ("a", "b", "c"):
        for position in range(2):
            kept.put(step_key(digest, position), b"0" * 10, "")
        kept.put(manifest_key(digest), b"0, 1", "")
    return kept


def digests(objects):
    return {stored.key.split("/")[1] for stored in objects.list("activations")}


def test_what_fits_stays(objects):
    assert trim(objects, budget_bytes=72) == 0
    assert digests(objects) == {"a", "b", "c"}


def test_what_was_not_used_for_longest_goes_first(objects):
    objects.put(manifest_key("a"), b"0, 1", "")  # as whoever uses it does
    assert trim(objects, budget_bytes=71) == 1
    assert digests(objects) == {"a", "c"}


def test_images_are_not_touched(objects):
    objects.put("tenant/job/1/0.png", b"0" * 1000, "")
    assert trim(objects, budget_bytes=0) == 3
    assert digests(objects) == set()
    assert objects.get("tenant/job/1/0.png")
