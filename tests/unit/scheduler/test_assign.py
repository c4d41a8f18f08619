import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from core.fleet import Worker
from scheduler.assign import assign, holdings
from tests.unit.scheduler.twins import a_worker

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
