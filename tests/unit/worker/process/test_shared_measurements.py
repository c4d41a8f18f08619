from redis.exceptions import ConnectionError as Away

from core.boards.cost import Cost
from core.model import Model
from worker.process.shared_measurements import SharedMeasurements

COST = Cost(steps=((1, 2.0),), fixed_s=0.5, is_measured=True)
MODEL = Model(name="m", family="noop")


class Store:
    """The hashes of a Redis."""

    def __init__(self):
        self.hashes, self.is_up = {}, True

    def execute_command(self, command, key):
        assert command == "HGETALL"
        self._answer()
        return self.hashes.get(key, {})

    def hset(self, key, field, value):
        self._answer()
        self.hashes.setdefault(key, {})[field.encode()] = value

    def _answer(self):
        if not self.is_up:
            raise Away


def a_worker(store, folder, device_type="cpu", dtype="float32"):
    learned = {}
    shared = SharedMeasurements(
        store,
        device_type,
        folder=folder,
        dtype=dtype,
        learn=lambda model, cost: learned.update({model.name: cost}),
    )
    return shared, learned


def look(shared):
    shared._read_at = float("-inf")
    shared.exchange({"m": MODEL})


def test_what_one_worker_measures_all_of_its_device_type_know(tmp_path):
    store = Store()
    first, _ = a_worker(store, tmp_path)
    first.note_load(MODEL, 12.0)
    first.note_cost(MODEL, COST)
    look(first)
    second, learned = a_worker(store, tmp_path)
    look(second)
    assert learned == {"m": COST}
    assert (second.usual_s("m"), second.load_s) == (12.0, {"m": 12.0})
    other, learned = a_worker(store, tmp_path, device_type="gpu")
    look(other)
    assert (learned, other.usual_s("m")) == ({}, None)


def test_other_weights_or_another_precision_are_not_what_was_measured(tmp_path):
    store = Store()
    first, _ = a_worker(store, tmp_path)
    first.note_cost(MODEL, COST)
    look(first)
    half, learned = a_worker(store, tmp_path, dtype="bfloat16")
    look(half)
    assert learned == {}
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "unet.safetensors").write_bytes(b"other weights")
    changed, learned = a_worker(store, tmp_path)
    look(changed)
    assert learned == {}


def test_a_store_that_is_away_is_told_later(tmp_path):
    store = Store()
    first, _ = a_worker(store, tmp_path)
    store.is_up = False
    first.note_cost(MODEL, COST)
    look(first)
    store.is_up = True
    first.exchange({"m": MODEL})  # at once
    second, learned = a_worker(store, tmp_path)
    look(second)
    assert learned == {"m": COST}


def test_what_a_later_version_wrote_is_left_alone(tmp_path):
    store = Store()
    store.hset("measured:cpu", "m", b'{"weights": 5}')
    shared, learned = a_worker(store, tmp_path)
    look(shared)
    assert learned == {}
