"""Which recordings are at hand, and what happens to those that are not whole?"""

import threading
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catalog.masking.config import Keep
from core.errors import ObjectsUnavailable
from core.job import Edit
from core.recipe import Recipe
from core.schema import SCHEMA, Versioned
from core.telemetry import metrics
from storage.fakes.objects import MemoryObjects
from tests.jobs import a_request
from worker.masking.activations import Activations
from worker.masking.cache import RecordingCache
from worker.masking.quantised import Quantised
from worker.masking.recording import (
    DamagedRecording,
    Recording,
    RecordingKey,
    StepFile,
    pack,
    read_blocks,
)

EDITED = a_request(edit=Edit(template="t", template_sha256="ab", mask="m"), steps=4)
KEY = RecordingKey.of(EDITED, 1, "w", is_guided=False)


def a_recording(tokens=4, steps=1, seed=0):
    recording = Recording()
    generator = torch.Generator().manual_seed(seed)
    for position in range(steps):
        outputs = {name: torch.randn(tokens, 8, generator=generator) for name in ("up", "down")}
        recording.keep(position, outputs)
    return recording


#: Of each field of a key, another value.
OTHERS = {
    "weights": "v",
    "recipe": Recipe.of(EDITED, 2, is_guided=False),
    "keeps": Keep.KEYS,
}


def key_of(number):
    return RecordingKey.of(EDITED, number, "w", is_guided=False)


@pytest.mark.parametrize("name", [field.name for field in fields(RecordingKey)])
def test_keys_that_differ_in_a_field_name_two_recordings(name):
    assert replace(KEY, **{name: OTHERS[name]}).digest != KEY.digest


def test_what_a_lora_recorded_is_not_found_without_it(tmp_path):
    with_lora = replace(KEY, recipe=OTHERS["recipe"])
    before, after = (Activations(2**30, RecordingCache(tmp_path, 2**30)) for _ in range(2))
    before.add(with_lora, a_recording())
    before.settle()
    for key in (KEY, with_lora):
        after.prefetch(key)
        after.settle()
    assert after.find(KEY) is None
    assert_same(after.find(with_lora), a_recording())


def assert_same(found, expected):
    assert found.covers(range(len(expected.steps)))
    for position, blocks in expected.steps.items():
        for name, block in blocks.items():
            assert torch.equal(found.steps[position][name].restored(), block.restored())


def fetched(activations, key=KEY):
    activations.prefetch(key)
    activations.settle()
    return activations.find(key)


@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6), tokens=st.integers(1, 9))
def test_an_output_comes_back_within_half_a_step_of_each_token(seed, scale, tokens):
    output = scale * torch.randn(tokens, 5, generator=torch.Generator().manual_seed(seed))
    back = Quantised.of(output).restored()
    step = output.abs().amax(dim=1, keepdim=True) / 127
    assert ((back - output).abs() <= 0.501 * step).all()


def test_a_token_of_zeros_stays_zero():
    zeros = Quantised.of(torch.zeros(3, 4))
    assert not zeros.restored().any()
    assert (zeros.scales > 0).all(), "or it was divided by zero"


def test_a_recording_takes_a_byte_a_value_and_four_a_token():
    assert a_recording(tokens=4, steps=3).num_bytes == 3 * 2 * (4 * 8 + 4 * 4)


@given(
    calls=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 20)), max_size=40),
    budget=st.integers(0, 400),
)
def test_the_budget_holds_and_the_least_recently_used_leave_first(calls, budget):
    activations, expected = Activations(budget), {}  # in the order of use
    for is_adding, number, tokens in calls:
        key = key_of(number)
        if not is_adding:
            assert (activations.find(key) is not None) == (key in expected)
            if key in expected:
                expected[key] = expected.pop(key)
            continue
        recording = a_recording(tokens)
        activations.add(key, recording)
        expected.pop(key, None)
        if recording.num_bytes <= budget:
            expected[key] = recording.num_bytes
            while sum(expected.values()) > budget:
                expected.pop(next(iter(expected)))
        assert activations.num_bytes == sum(expected.values()) <= budget


def test_a_recording_is_begun_where_it_has_room_beside_those_in_progress():
    activations = Activations(100)
    first, second = activations.begin(60), activations.begin(40)
    assert first is not None and second is not None
    assert activations.begin(1) is None
    del second  # its edit was canceled
    assert activations.begin(41) is None
    assert activations.begin(40) is not None


def test_one_recording_alone_may_be_larger_than_the_budget_and_has_nothing_make_room(tmp_path):
    activations = Activations(100, RecordingCache(tmp_path, 2**20))
    activations.add(key_of(0), a_recording())
    activations.settle()
    assert activations.begin(101) is not None
    large = activations.begin(1000)
    assert large is not None and activations.find(key_of(0))
    assert activations.begin(1) is None
    large.steps = a_recording(steps=3).steps
    activations.add(KEY, large)
    activations.settle()
    assert activations.find(KEY) is None and activations.find(key_of(0))
    assert set(fetched(activations).files) == {0, 1, 2}, "though not in memory"
    assert activations.begin(1) is not None


def test_what_is_kept_makes_room_for_recordings_in_progress():
    activations = Activations(300)
    for number in range(3):
        activations.add(key_of(number), a_recording())  # of 96 bytes
    begun = activations.begin(100)
    assert [activations.find(key_of(n)) is not None for n in range(3)] == [False, True, True]
    assert activations.grow(begun, 250)
    assert activations.num_bytes == 0
    assert not activations._keep(KEY, a_recording()), "nor is there room for one that is read"
    activations.add(KEY, begun)
    activations.add(key_of(1), a_recording())
    assert activations.find(key_of(1))


def test_a_recording_makes_way_for_those_begun_before_it():
    activations = Activations(100)
    first, second = activations.begin(), activations.begin()
    assert activations.grow(second, 80), "nobody knows yet how large the first one gets"
    assert activations.grow(first, 80)
    assert not activations.grow(second, 80)
    assert activations.grow(first, 1000)
    del second
    assert activations.begin(1) is None


class SlowDisk(RecordingCache):
    """A disk that writes once it may."""

    def __init__(self, folder, *, fails=False):
        super().__init__(folder, 2**20)
        self.may_write = threading.Event()
        self.fails = fails

    def save(self, digest, steps):
        self.may_write.wait(60)
        if self.fails:
            raise ValueError("a fault of ours")
        return super().save(digest, steps)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_not_written_yet_takes_its_room_until_it_is(tmp_path, fails):
    disk = SlowDisk(tmp_path, fails=fails)
    activations = Activations(200, disk)
    activations.add(KEY, a_recording())  # of 96 bytes
    assert activations.begin(105) is None
    begun = activations.begin(104)
    assert begun is not None and activations.grow(begun, 104)
    assert not activations.grow(begun, 105)
    assert activations.find(KEY), "to drop it would free nothing yet"
    disk.may_write.set()
    activations.settle()
    assert activations.grow(begun, 105)
    assert activations.find(KEY) is None


def test_what_a_disk_that_is_behind_has_no_room_for_is_not_written_and_counted(tmp_path):
    disk, before = SlowDisk(tmp_path), dropped("not_saved")
    activations = Activations(200, disk)
    for number in range(3):
        activations.add(key_of(number), a_recording())  # of 96 bytes
    assert dropped("not_saved") == before + 1
    assert [activations.find(key_of(n)) is not None for n in range(3)] == [True, True, False]
    disk.may_write.set()
    activations.settle()
    assert [disk.find(key_of(n).digest) is not None for n in range(3)] == [True, True, False]
    activations.add(key_of(2), a_recording())
    activations.settle()
    assert disk.find(key_of(2).digest)
    assert dropped("not_saved") == before + 1


def dropped(outcome):
    return metrics.recordings_dropped.labels(outcome)._value.get()


@given(
    calls=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40),
    budget=st.integers(1, 2000),
)
def test_memory_holds_its_budget_and_at_most_one_recording_that_is_larger(calls, budget):
    activations, making = Activations(budget), []
    for what, number in calls:
        if what == 0 and (begun := activations.begin(96 * number)) is not None:
            making.append(begun)
        elif what == 1 and making:
            making[:] = [each for each in making if activations.grow(each, each.expected_bytes)]
        elif what == 2 and making:
            done = making.pop(number % len(making))
            done.steps = a_recording(steps=1 + number).steps
            activations.add(key_of(number), done)
        elif what == 3 and making:
            making.pop(number % len(making))
        held = sum(each.expected_bytes for each in making)
        assert held <= budget or len([each for each in making if each.expected_bytes]) == 1
        assert activations.num_bytes + (held if held <= budget else 0) <= budget


def test_whatever_the_outputs_depend_on_names_another_recording():
    recipe = replace(KEY.recipe, values=(*KEY.recipe.values, ("another", 1)))
    keys = [KEY, replace(KEY, recipe=recipe), replace(KEY, weights="v")]
    keys += [replace(KEY, keeps=Keep.KEYS)]
    assert len({key.digest for key in keys}) == len(keys)
    assert {len(key.digest) for key in keys} == {64}, "half of it names the recipe"


def test_another_worker_of_the_machine_finds_what_one_has_recorded(tmp_path):
    first, recording = Activations(2**20, RecordingCache(tmp_path, 2**20)), a_recording(steps=3)
    first.add(KEY, recording)
    first.settle()
    found = fetched(Activations(2**20, RecordingCache(tmp_path, 2**20)))
    assert found.tier == "disk"
    assert_same(found, recording)


def test_a_worker_of_another_machine_finds_it_in_the_object_store(tmp_path):
    objects, recording = MemoryObjects(), a_recording(steps=3)
    here = Activations(2**20, RecordingCache(tmp_path / "here", 2**20, objects))
    here.add(KEY, recording)
    here.settle()
    found = fetched(Activations(2**20, RecordingCache(tmp_path / "there", 2**20, objects)))
    assert found.tier == "store"
    assert_same(found, recording)


def test_what_does_not_fit_in_memory_stays_in_its_files(tmp_path):
    shelf, recording = RecordingCache(tmp_path, 2**20), a_recording(steps=3)
    shelf.save(KEY.digest, recording.steps)
    one_step = recording.num_bytes // 3
    found = fetched(Activations(one_step, shelf))
    assert set(found.steps) == {0} and set(found.files) == {0, 1, 2}
    assert found.covers(range(3))


def test_the_disk_keeps_to_its_budget_and_the_least_recently_used_leave_first(tmp_path):
    step = len(pack(a_recording().steps[0]))
    shelf = RecordingCache(tmp_path, 2 * step)
    for number in range(3):
        shelf.save(key_of(number).digest, a_recording().steps)
        if number == 1:
            shelf.find(key_of(0).digest)
    assert [shelf.find(key_of(n).digest) is not None for n in range(3)] == [True, False, True]


@pytest.mark.parametrize("spoil", ["flip", "cut", "remove"])
def test_a_damaged_step_was_never_recorded(tmp_path, spoil):
    shelf = RecordingCache(tmp_path, 2**20)
    path = shelf.save(KEY.digest, a_recording(steps=2).steps)[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    if spoil != "remove":
        path.write_bytes(data if spoil == "flip" else data[:-1])
    found = fetched(Activations(2**20, shelf))
    assert found.covers(range(1)) and not found.covers(range(2))
    assert not path.exists(), "it is recorded again"


def test_a_step_of_a_newer_version_is_recorded_again(tmp_path):
    path = tmp_path / "0"
    blocks = a_recording(steps=1).steps[0]
    data = pack(blocks)
    own = f'"schema":"{SCHEMA.stamp(Versioned.RECORDING)}"'.encode()
    assert own in data
    path.write_bytes(data.replace(own, b'"schema":"9"'))
    with pytest.raises(DamagedRecording, match="a newer one wrote it"):
        StepFile(path)


def test_a_step_without_a_number_is_read(tmp_path):
    path = tmp_path / "0"
    path.write_bytes(pack(a_recording(steps=1).steps[0]).replace(b'"schema"', b'"sch_ma"'))
    with StepFile(path) as file:
        assert file.sizes


def test_a_file_that_is_no_recording_is_damaged(tmp_path):
    path = tmp_path / "0"
    path.write_bytes(b"no header at all")
    with pytest.raises(DamagedRecording, match="0: "):
        StepFile(path)


def test_blocks_are_read_in_the_order_asked_for(tmp_path):
    path = RecordingCache(tmp_path, 2**20).save(KEY.digest, a_recording().steps)[0]
    assert [name for name, _ in read_blocks(path, ["up", "down"])] == ["up", "down"]
    with pytest.raises(DamagedRecording, match="middle"):
        list(read_blocks(path, ["middle"]))


def test_a_store_that_is_away_is_a_recording_that_is_not_there(tmp_path):
    class Away(MemoryObjects):
        def get(self, key):
            raise ObjectsUnavailable("no answer")

        put = get

    activations = Activations(2**20, RecordingCache(tmp_path, 0, Away()))
    activations.add(KEY, a_recording())
    activations.settle()
    assert activations.find(KEY), "in memory all the same"
    assert fetched(activations, key_of(2)) is None


def test_recordings_are_named_by_their_recipe_the_last_used_one_last(tmp_path):
    activations = Activations(2**20, RecordingCache(tmp_path, 2**20))
    for number in range(3):
        activations.add(key_of(number), a_recording())
    activations.find(key_of(0))
    activations.settle()
    names = [key_of(number).recipe.name for number in (1, 2, 0)]
    assert list(activations.names) == names
    assert sorted(activations.shelved()) == sorted(names)
    assert all(key_of(number).digest.startswith(key_of(number).recipe.name) for number in range(3))
    activations.close()


def test_without_a_disk_nothing_is_named_there(tmp_path):
    assert Activations(2**20).shelved() == ()
    assert Activations(2**20, RecordingCache(tmp_path / "none", 1)).shelved() == ()
