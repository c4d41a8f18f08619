import random
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import pytest

from core.errors import BadWeights, EngineError
from worker.control.server.model_cache import ModelCache, Popularity

#: Five ControlNets of a service get 98 % of the uses (Katz, Fig. 5); 0.457**5 is the rest.
SHARES = [0.457**rank for rank in range(20)]
#: ControlNets of one request (Katz, Table 1).
PER_REQUEST = {1: 0.305, 2: 0.695}


@dataclass(frozen=True)
class Net:
    name: str
    num_bytes: int = 1

    def close(self):
        """Nothing is kept of it."""


class Loader:
    def __init__(self):
        self.loaded = []

    def __call__(self, name):
        if name == "broken":
            raise BadWeights("broken: no file")
        self.loaded.append(name)
        return Net(name, 3 if name == "large" else 1)


def requests(count, seed):
    """Draw the ControlNets of each request, as popular as in the paper."""
    draw = random.Random(seed)
    names = [f"net{rank}" for rank in range(len(SHARES))]
    for _ in range(count):
        [size] = draw.choices(list(PER_REQUEST), list(PER_REQUEST.values()))
        chosen = set()
        while len(chosen) < size:
            chosen |= set(draw.choices(names, SHARES))
        yield sorted(chosen)


def hits_of_lru(uses, room):
    held, hits = OrderedDict(), 0
    for name in uses:
        hits += name in held
        held.pop(name, None)
        held[name] = True
        if len(held) > room:
            held.popitem(last=False)
    return hits


def take_and_release(residents, *names):
    for name in names:
        residents.take(name)
        residents.release(name)


@pytest.mark.parametrize("seed", range(3))
def test_the_hit_rate_is_that_of_the_ideal_lru(seed):
    loader, running = Loader(), []
    residents = ModelCache(loader, room=5)
    asked = list(requests(2000, seed))
    for names in asked:
        if len(running) == 2:  # requests overlap, and what is in use cannot leave
            for name in running.pop(0):
                residents.release(name)
        for name in names:
            residents.take(name)
        running.append(names)
    uses = [name for names in asked for name in names]
    ours = 1 - len(loader.loaded) / len(uses)
    ideal = hits_of_lru(uses, 5) / len(uses)
    assert ours > 0.9 and ours >= ideal - 0.03


def test_what_fits_is_loaded_before_anybody_asks():
    loader = Loader()
    residents = ModelCache(loader, room=3, patience_s=0.01)
    residents.preload({"a": 1, "large": 3, "broken": 1, "b": 1})
    take_and_release(residents, "a", "b")
    assert loader.loaded == ["a", "b"]
    residents.expect("large", 3)
    assert residents.names == (), "neither is in use"


def test_the_least_popular_one_leaves():
    residents = ModelCache(Loader(), room=2)
    take_and_release(residents, "a", "a", "a", "b", "c")
    assert residents.names == ("a", "c")


def test_what_was_popular_long_ago_makes_room():
    popularity = Popularity(half_life=10)
    for name in ["old"] * 20 + ["new"] * 15:
        popularity.note(name)
    assert popularity.of("new") > popularity.of("old") > 0 == popularity.of("never")


def test_one_in_use_stays():
    residents = ModelCache(Loader(), room=2)
    residents.take("a")
    take_and_release(residents, "b", "b", "c")
    assert residents.names == ("c", "a")


def test_one_that_is_larger_than_the_room_is_held_alone():
    residents = ModelCache(Loader(), room=2)
    take_and_release(residents, "a", "large")
    assert residents.names == ("large",)


def test_where_all_are_in_use_a_new_one_waits_for_one_to_leave():
    residents = ModelCache(Loader(), room=1)
    residents.take("a")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(residents.take, "b")
        residents.release("a")
        assert waiting.result(60).name == "b"
    assert residents.names == ("b",)


def test_where_none_leaves_in_time_it_is_refused():
    residents = ModelCache(Loader(), room=1, patience_s=0.01)
    residents.take("a")
    with pytest.raises(EngineError, match="no room"):
        residents.take("b")
    assert residents.names == ("a",)


class Telling(Loader):
    """Says how large each is before it is loaded, and notes what is held when it is."""

    room = 2

    def __init__(self):
        super().__init__()
        self.residents = ModelCache(self, room=self.room, patience_s=0.01)
        self.beside = []

    def __call__(self, name):
        self.residents.expect(name, 2 if name == "double" else 1)
        self.beside.append((name, sorted(self.residents.names)))
        return replace(super().__call__(name), num_bytes=2 if name == "double" else 1)


def test_what_makes_room_has_left_before_another_is_loaded():
    load = Telling()
    take_and_release(load.residents, "a", "a", "b", "c", "double")
    assert load.beside == [("a", []), ("b", ["a"]), ("c", ["a"]), ("double", [])]
    assert load.residents.names == ("double",)


def test_nothing_is_loaded_that_those_in_use_leave_no_room_for():
    load = Telling()
    load.residents.take("a")
    with pytest.raises(EngineError, match="no room"):
        load.residents.take("double")
    assert load.loaded == ["a"]
    load.residents.release("a")
    take_and_release(load.residents, "double")


def test_one_that_is_being_loaded_has_its_room_and_gives_it_back_if_it_cannot_be():
    load = Telling()
    with pytest.raises(BadWeights):
        load.residents.take("broken")
    with ThreadPoolExecutor(2) as threads:
        for made in [threads.submit(load.residents.take, name) for name in ("a", "b")]:
            assert made.result(60)
    with pytest.raises(EngineError, match="no room"):
        load.residents.take("c")


def test_two_that_want_the_same_one_load_it_once():
    began, may_end, loaded = Event(), Event(), []

    def load(name):
        loaded.append(name)
        began.set()
        may_end.wait(60)
        return Net(name)

    residents = ModelCache(load, room=1, patience_s=0.01)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(residents.take, "a")
        began.wait(60)
        second = threads.submit(residents.take, "a")
        may_end.set()
        assert first.result(60) is second.result(60)
    assert loaded == ["a"]
    residents.release("a")
    with pytest.raises(EngineError, match="no room"):
        residents.expect("b", 1)  # one of them uses it still


def test_one_that_cannot_be_loaded_is_tried_again():
    residents = ModelCache(Loader(), room=1)
    for _ in range(2):
        with pytest.raises(BadWeights):
            residents.take("broken")
    assert residents.names == ()
