import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.boards.fleet import Worker
from scheduler.allocation.assign import assign, can_hold, can_load, holdings
from tests.unit.scheduler.fakes import a_worker

MODELS = ("a", "b", "c")


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[Worker], dict[tuple[str, str], int]]:
    workers = [
        a_worker(f"w{i}", *sorted(draw(st.sets(st.sampled_from(MODELS), max_size=2))))
        for i in range(draw(st.integers(1, 5)))
    ]
    wanted = Counter(draw(st.sampled_from(MODELS)) for _ in workers)
    return workers, {("cpu", model): count for model, count in wanted.items()}


def loads(workers: list[Worker], assignments: dict[str, str]) -> int:
    return sum(assignments[w.name] not in w.models for w in workers)


@given(moves())
def test_counts_are_met_with_the_fewest_loads(
    drawn: tuple[list[Worker], dict[tuple[str, str], int]],
) -> None:
    workers, counts = drawn
    given_ = assign(counts, workers, previous={}, settling={})
    assert Counter(("cpu", model) for model in given_.values()) == Counter(counts)
    models = [model for (_, model), count in counts.items() for _ in range(count)]
    fewest = min(
        loads(workers, dict(zip((w.name for w in workers), order, strict=True)))
        for order in itertools.permutations(models)
    )
    assert loads(workers, given_) == fewest


@given(moves(), st.randoms(use_true_random=False))
def test_the_order_of_the_reports_does_not_matter(
    drawn: tuple[list[Worker], dict[tuple[str, str], int]], random: object
) -> None:
    workers, counts = drawn
    backwards = list(reversed(workers))
    assert assign(counts, workers, previous={}, settling={}) == assign(
        dict(reversed(counts.items())), backwards, previous={}, settling={}
    )


def test_a_worker_keeps_the_model_of_the_last_plan_rather_than_an_older_one() -> None:
    worker, other = a_worker("w0", "a", "b"), a_worker("w1", "a", "b")
    counts = {("cpu", "a"): 1, ("cpu", "b"): 1}
    given_ = assign(counts, [worker, other], previous={"w0": "b", "w1": "a"}, settling={})
    assert given_ == {"w0": "b", "w1": "a"}


def test_types_are_assigned_apart() -> None:
    workers = [a_worker("w0", "a"), a_worker("g0", "a", device_type="gpu")]
    counts = {("cpu", "a"): 1, ("gpu", "b"): 1}
    assert assign(counts, workers, previous={}, settling={}) == {"w0": "a", "g0": "b"}


def test_a_settling_worker_is_not_moved_even_if_another_holds_the_model() -> None:
    workers = [a_worker("w0", "a"), a_worker("w1", "b")]
    counts = {("cpu", "a"): 1, ("cpu", "b"): 1}
    given_ = assign(counts, workers, previous={"w0": "b", "w1": "b"}, settling={"w0": "b"})
    assert given_ == {"w0": "b", "w1": "a"}


def test_what_a_worker_is_loading_counts_as_held() -> None:
    assert holdings(a_worker("w0", "a"), {"w0": "b"}) == ("b", "a")
    assert holdings(a_worker("w0", "a"), {"w0": "a"}) == ("a",)


def test_what_a_worker_cannot_load_is_not_held_though_it_was_given_that() -> None:
    for unable in (
        replace(a_worker("w0", "a"), refused=("b",)),
        replace(a_worker("w0", "a"), catalogue=("a",)),
    ):
        assert holdings(unable, {"w0": "b"}) == ("a",)
    assert holdings(replace(a_worker("w0", "b"), refused=("b",)), {"w0": "b"}) == ("b",)


def test_a_model_goes_from_who_cannot_load_it_to_who_can_and_holds_another() -> None:
    counts = {("cpu", "a"): 2, ("cpu", "b"): 1}
    broken = replace(a_worker("w1"), refused=("a",))
    for unable in (broken, replace(broken, models=("b",)), replace(broken, catalogue=("b", "c"))):
        workers = [a_worker("w0", "a"), unable, a_worker("w2", "b")]
        previous = {"w0": "a", "w1": "a", "w2": "b"}
        given_ = assign(counts, workers, previous=previous, settling={})
        assert given_ == {"w0": "a", "w1": "b", "w2": "a"}


def test_workers_change_places_in_a_row() -> None:
    """The first can hold `a` alone, the second `a` and `b`, and the third both of these and `c`."""
    workers = [
        replace(a_worker("w0"), catalogue=("a",)),
        replace(a_worker("w1", "a"), catalogue=("a", "b")),
        replace(a_worker("w2", "b"), catalogue=("a", "b", "c")),
    ]
    counts = {("cpu", model): 1 for model in MODELS}
    given_ = assign(counts, workers, previous={"w0": "c"}, settling={})
    assert given_ == {"w0": "a", "w1": "b", "w2": "c"}


def test_who_can_have_nothing_that_is_wanted_keeps_what_it_has_or_has_more_than_is_wanted() -> None:
    counts = {("cpu", "a"): 2, ("cpu", "b"): 1, ("cpu", "c"): 0}
    others = [a_worker("w1", "a"), replace(a_worker("w2", "b"), refused=("a",))]
    for unable, model in (
        (replace(a_worker("w0", "c"), refused=("a", "b")), "c"),
        (replace(a_worker("w0"), refused=("a", "b")), "c"),
        (replace(a_worker("w0"), refused=("a",)), "b"),
    ):
        given_ = assign(counts, [unable, *others], previous={"w0": "a"}, settling={})
        assert given_ == {"w0": model, "w1": "a", "w2": "b"}


@given(moves(), st.data())
def test_nobody_is_given_what_it_cannot_hold_where_it_can_hold_anything(
    drawn: tuple[list[Worker], dict[tuple[str, str], int]], data: st.DataObject
) -> None:
    workers, counts = drawn
    refused = st.sets(st.sampled_from(MODELS), max_size=2)
    workers = [replace(w, refused=tuple(sorted(data.draw(refused)))) for w in workers]
    every = {("cpu", model): 0 for model in MODELS} | counts
    previous = {w.name: data.draw(st.sampled_from(MODELS)) for w in workers}
    given_ = assign(every, workers, previous=previous, settling={})
    assert list(given_) == [w.name for w in workers]
    assert all(can_hold(w, given_[w.name]) for w in workers)


def test_who_settles_on_a_model_that_nobody_wants_is_given_another() -> None:
    workers = [a_worker("w0"), a_worker("w1")]
    for counts in ({("cpu", "a"): 2}, {("cpu", "a"): 2, ("cpu", "b"): 0}):
        assert assign(counts, workers, previous={}, settling={"w0": "b"}) == {"w0": "a", "w1": "a"}


def test_no_more_workers_settle_on_a_model_than_shall_hold_it() -> None:
    counts = {("cpu", "a"): 1, ("cpu", "b"): 1}
    settling = {"w0": "a", "w1": "a"}
    given_ = assign(counts, [a_worker("w1"), a_worker("w0")], previous={}, settling=settling)
    assert given_ == {"w0": "a", "w1": "b"}
    assert list(given_) == ["w0", "w1"], "a plan lists its workers in order"


def test_a_model_goes_to_the_first_worker_that_can_load_it_or_to_any() -> None:
    unable = replace(a_worker("w0"), refused=("a",))
    other = replace(a_worker("w1"), catalogue=("a",))
    counts = {("cpu", "a"): 1, ("cpu", "b"): 1}
    assert assign(counts, [unable, other], previous={}, settling={}) == {"w0": "b", "w1": "a"}
    assert assign({("cpu", "a"): 1}, [unable], previous={}, settling={}) == {"w0": "a"}
    assert assign({("cpu", "a"): 2}, [other], previous={}, settling={}) == {"w1": "a"}
    neither = [unable, replace(unable, name="w1")]
    assert assign({("cpu", "a"): 1}, neither, previous={}, settling={}) == {"w0": "a"}


def test_a_model_can_be_loaded_where_it_is_and_has_not_failed() -> None:
    worker = replace(a_worker("w0"), catalogue=("a", "b"), refused=("b",))
    assert [can_load(worker, model) for model in MODELS] == [True, False, False]
    assert can_load(a_worker("w1"), "a"), "who lists no models is believed to have all"
    small = replace(a_worker("w2", memory_gib=4.0), needs_gib={"a": 4.0, "b": 4.1})
    assert [can_load(small, model) for model in MODELS] == [True, False, True]


def test_workers_move_up_in_a_row_so_that_the_last_one_keeps_what_it_holds() -> None:
    workers = [a_worker("w0", "b", "c"), a_worker("w1", "a", "b"), a_worker("w2", "a")]
    counts = {("cpu", model): 1 for model in MODELS}
    kept = assign(counts, workers, previous={}, settling={})
    assert kept == {"w0": "c", "w1": "b", "w2": "a"}


def test_workers_that_moved_up_keep_what_they_hold_though_others_are_there_to_load() -> None:
    workers = [a_worker("w0", "b", "c"), a_worker("w1", "a", "b"), a_worker("w2")]
    counts = {("cpu", model): 1 for model in (*MODELS, "d")}
    kept = assign(counts, [*workers, a_worker("w3", "a")], previous={}, settling={})
    assert kept == {"w0": "c", "w1": "b", "w2": "d", "w3": "a"}


def test_beside_a_worker_that_settles_another_is_given_the_same_model() -> None:
    workers = [a_worker("w0"), a_worker("w1")]
    given_ = assign({("cpu", "a"): 2}, workers, previous={}, settling={"w0": "a"})
    assert given_ == {"w0": "a", "w1": "a"}


def test_a_plan_lists_its_workers_in_order_whoever_settles() -> None:
    counts = {("cpu", "a"): 1, ("cpu", "b"): 1}
    given_ = assign(counts, [a_worker("w0"), a_worker("w1")], previous={}, settling={"w1": "a"})
    assert list(given_.items()) == [("w0", "b"), ("w1", "a")]
