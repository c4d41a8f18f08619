from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from worker.engine.batch import fitting


@dataclass(frozen=True)
class Candidate:
    order: tuple
    group: tuple
    rows: int
    steps: int = 1


@st.composite
def candidates(draw):
    size = draw(st.integers(1, 12))
    return [
        Candidate(
            order=(draw(st.sampled_from([1.0, 2.0, 3.0])), f"j{i // 2}", i % 2),
            group=(draw(st.sampled_from("ab")),),
            rows=draw(st.integers(1, 2)),
            steps=draw(st.integers(1, 5)),
        )
        for i in range(size)
    ]


max_rows = st.integers(1, 10)


def chosen(running, cap):
    return fitting(running, lambda slot: slot.order, lambda group: cap)


@given(candidates(), max_rows)
def test_a_batch_is_of_one_group_and_within_the_cap(running, cap):
    batch = chosen(running, cap)
    assert len({slot.group for slot in batch}) <= 1
    assert len(batch) == len(set(batch))
    assert sum(slot.rows for slot in batch) <= cap or len(batch) == 1


@given(candidates(), max_rows)
def test_whoever_is_due_first_is_in_the_batch(running, cap):
    batch = chosen(running, cap)
    assert batch[0] is min(running, key=lambda slot: slot.order)
    assert [s.order for s in batch] == sorted(s.order for s in batch)


@given(candidates(), max_rows)
def test_no_look_alike_that_fits_is_left_out(running, cap):
    batch = chosen(running, cap)
    spare = cap - sum(slot.rows for slot in batch)
    left = [s for s in running if s not in batch and s.group == batch[0].group]
    for slot in left:
        ahead = [other for other in batch if other.order < slot.order]
        assert slot.rows > spare or sum(other.rows for other in ahead) + slot.rows > cap


@given(candidates(), max_rows)
def test_the_choice_does_not_depend_on_the_order_of_arrival(running, cap):
    assert chosen(running, cap) == chosen(running[::-1], cap)


@given(candidates(), max_rows, st.lists(st.integers(0, 3), max_size=20))
def test_everyone_finishes_though_new_jobs_keep_coming(running, cap, arrivals):
    """New jobs are due later than the ones here, as their due times are fixed on acceptance."""
    mine = {slot.order for slot in running}
    budget = sum(slot.steps for slot in running)
    for step in range(budget):
        if not running or not mine:
            break
        new = arrivals[step] if step < len(arrivals) else 1
        running = running + [
            Candidate(order=(9.0 + step, f"n{step}-{i}", 0), group=("a",), rows=2, steps=99)
            for i in range(new)
        ]
        batch = chosen(running, cap)
        stepped = [replace(slot, steps=slot.steps - 1) for slot in batch]
        running = [s for s in running if s not in batch] + [s for s in stepped if s.steps]
        mine &= {slot.order for slot in running}
    assert not mine
