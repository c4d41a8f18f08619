"""How do recorded outputs come to the device in time, or not at all?"""

import threading

import pytest
import torch

from tests.unit.worker.test_activations import KEY, a_recording
from worker.masking.activation_prefetch import ActivationLoader, Feed
from worker.masking.cache import RecordingCache
from worker.masking.recording import Recording, read_blocks

CPU = torch.device("cpu")
NAMES = ["up", "down"]


@pytest.fixture
def recording(tmp_path):
    made = a_recording(steps=3)
    made.files = RecordingCache(tmp_path, 2**20).save(KEY.digest, made.steps)
    return made


def a_feed(recording, *, read=read_blocks, names=NAMES):
    return Feed(recording, ActivationLoader(CPU, read), lambda is_in_memory: names, range(3))


@pytest.mark.parametrize("where", ["memory", "files"])
def test_each_step_comes_as_it_was_recorded(recording, where):
    source = recording if where == "memory" else Recording(files=recording.files)
    feed = a_feed(source)
    for position in range(3):
        outputs = feed.at(position)
        for name in NAMES:
            assert name in outputs
            expected = recording.steps[position][name].restored()
            assert torch.equal(outputs[name], expected)


def test_a_damaged_step_is_computed_and_recorded_anew(recording):
    path = recording.files[0]
    path.write_bytes(path.read_bytes()[:-1])
    kept = Recording(files=recording.files)
    assert kept.covers(range(3))
    assert "up" not in a_feed(kept).at(0)
    assert not kept.covers(range(3))


def test_blocks_that_are_not_chosen_are_not_loaded(recording):
    for source in (recording, Recording(files=recording.files)):
        outputs = a_feed(source, names=["down"]).at(0)
        assert "down" in outputs and "up" not in outputs
        assert list(outputs) == ["down"]


def test_the_next_step_is_on_its_way_while_this_one_is_computed(recording):
    seen, may_go_on = [], threading.Event()

    def read(path, names):
        seen.append(path.stem)
        if path.stem == "1":
            may_go_on.wait(60)
        yield from read_blocks(path, names)

    feed = a_feed(Recording(files=recording.files), read=read)
    assert "up" in feed.at(0), "which does not wait for step 1"
    may_go_on.set()
    assert "up" in feed.at(1)
    assert seen[:2] == ["0", "1"]


def test_what_cannot_be_read_is_not_there(recording):
    recording.files[0].write_bytes(b"not a recording")
    recording.files[1].unlink()
    feed = a_feed(Recording(files=recording.files))
    assert ["up" in feed.at(position) for position in range(3)] == [False, False, True]


def test_a_feed_that_is_closed_holds_its_recording_no_more(recording):
    feed = a_feed(recording)
    assert feed.at(0)
    feed.close()
    assert not any(feed.at(position) for position in range(3))
    assert recording.covers(range(3)), "others go on with it"


def test_a_step_that_was_not_recorded_has_no_outputs():
    assert not a_feed(Recording()).at(0)
