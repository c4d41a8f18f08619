from redis.exceptions import ConnectionError as Away

from catalog.weights import fingerprint
from core.boards.cost import Cost
from core.boards.need import Need
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


def a_loader(store, folder, **options):
    """A worker that has loaded the model of this folder."""
    shared, learned = a_worker(store, folder, **options)
    shared.note_weights(MODEL, fingerprint(folder / "m"))
    return shared, learned


def save(folder, weights):
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m" / "unet.safetensors").write_bytes(weights)


def vanish(folder):
    """Have a file that is listed and cannot be read, as one that goes meanwhile."""
    (folder / "m" / "unet.safetensors").unlink()
    (folder / "m" / "unet.safetensors").symlink_to("nowhere")


def look(shared):
    shared._read_at = float("-inf")
    shared.exchange({"m": MODEL})


def test_what_one_worker_measures_all_of_its_device_type_know(tmp_path):
    store = Store()
    first, _ = a_loader(store, tmp_path)
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
    first, _ = a_loader(store, tmp_path)
    first.note_cost(MODEL, COST)
    look(first)
    half, learned = a_worker(store, tmp_path, dtype="bfloat16")
    look(half)
    assert learned == {}
    save(tmp_path, b"other weights")
    changed, learned = a_worker(store, tmp_path)
    look(changed)
    assert learned == {}


def test_a_store_that_is_away_is_told_later(tmp_path):
    store = Store()
    first, _ = a_loader(store, tmp_path)
    store.is_up = False
    first.note_cost(MODEL, COST)
    look(first)
    store.is_up = True
    first.exchange({"m": MODEL})  # at once
    second, learned = a_worker(store, tmp_path)
    look(second)
    assert learned == {"m": COST}


def test_what_is_measured_is_of_the_weights_that_were_loaded_whatever_lies_there_now(tmp_path):
    store = Store()
    save(tmp_path, b"old weights")
    first, _ = a_loader(store, tmp_path)
    save(tmp_path, b"new weights")
    first.note_cost(MODEL, COST)
    look(first)
    other, learned = a_worker(store, tmp_path)
    look(other)
    assert learned == {}
    save(tmp_path, b"old weights")
    alike, learned = a_worker(store, tmp_path)
    look(alike)
    assert learned == {"m": COST}


def test_what_is_measured_is_noted_though_its_files_have_gone(tmp_path):
    store = Store()
    save(tmp_path, b"weights")
    first, _ = a_loader(store, tmp_path)
    vanish(tmp_path)
    first.note_cost(MODEL, COST)
    assert first._known["m"].cost == COST
    second, learned = a_worker(store, tmp_path)
    second.note_need(MODEL, Need(weights_gib=1.0))
    look(first)
    look(second)
    assert (learned, second._known) == ({}, {}), "nobody can say whether these are its weights"


def test_nothing_is_noted_of_a_model_that_leaves_as_its_folder_is_another(tmp_path):
    first, _ = a_loader(Store(), tmp_path)
    first.forget("m")
    first.note_cost(MODEL, COST)
    first.note_load(MODEL, 9.0)
    assert (first._known, first._unsaid) == ({}, set())


def test_other_weights_under_the_same_name_begin_with_nothing_known(tmp_path):
    shared, _ = a_loader(Store(), tmp_path)
    shared.note_load(MODEL, 9.0)
    assert not shared.note_weights(MODEL, fingerprint(tmp_path / "m")), "they are the same"
    assert shared.usual_s("m") == 9.0
    assert shared.note_weights(MODEL, "others")
    assert shared.usual_s("m") is None
    shared.note_cost(MODEL, COST)
    assert (shared._known["m"].load_s, shared._known["m"].cost) == (0.0, COST)


def test_what_a_later_version_wrote_is_left_alone(tmp_path):
    store = Store()
    store.hset("measured:cpu", "m", b'{"weights": 5}')
    shared, learned = a_worker(store, tmp_path)
    look(shared)
    assert learned == {}
