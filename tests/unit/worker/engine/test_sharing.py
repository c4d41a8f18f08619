from dataclasses import replace
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner
from worker.diffusion.runner import Sample
from worker.engine.batch import (
    KEEP_EVERY,
    LEARN_EVERY,
    MAX_GROUPS,
    WINDOW,
    NextBatch,
    RowTimes,
    Sharing,
    best_size,
    rank,
)
from worker.engine.engine import Engine
from worker.engine.slot import Slot, Ticket

LINEAR = [1.0, 2.0, 3.0, 4.0]
SUBLINEAR = [1.0, 1.2, 1.4, 1.6]
ROWS = [1, 2, 3, 4]

rising = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))]
)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class LinearRunner(FakeRunner):
    """Takes a second a row."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def forward(self, samples):
        self.clock.now += sum(sample.rows for sample in samples)
        return super().forward(samples)


def an_engine(**options):
    clock = Clock()
    engine = Engine(max_slots=4, max_rows=8, slo_s=60.0, clock=clock, stopwatch=clock, **options)
    engine.attach(LinearRunner(clock))
    return engine, clock


def a_request(name, clock, *, steps=10, **request):
    return replace(a_job(name, steps=steps, guidance=1.0, **request), created_at=clock.now)


def warmed():
    """An engine that has learnt how long its steps take."""
    engine, clock = an_engine()
    for number in range(80):
        for index in range(4):
            engine.add(a_request(f"warm-{number}-{index}", clock), None)
        while engine.step():
            pass
    return engine, clock


def ends_of(engine, clock, *futures):
    ends = {}
    for name, future in enumerate(futures):
        future.add_done_callback(lambda _, name=name: ends.setdefault(name, clock.now))
    while engine.step():
        pass
    return [ends[name] for name in range(len(futures))]


def test_where_rows_cost_in_proportion_one_after_the_other_takes_the_step():
    assert best_size(ROWS, LINEAR, is_full=True) == 1
    assert best_size(ROWS, LINEAR, is_full=False) == 1


def test_where_rows_cost_little_all_share():
    assert best_size(ROWS, SUBLINEAR, is_full=True) == 4
    assert best_size(ROWS, SUBLINEAR, is_full=False) == 4


def test_a_full_engine_makes_the_most_of_a_second():
    assert best_size(ROWS, [1.0, 1.5, 1.9, 2.9], is_full=True) == 3
    assert best_size([2, 4, 6], [1.0, 1.5, 2.5], is_full=True) == 2


def test_of_sizes_that_cannot_be_told_apart_the_smallest_is_taken():
    assert best_size(ROWS, [1.0, 1.995, 2.985, 3.98], is_full=True) == 1


@given(rising)
def test_no_size_makes_more_of_a_second_than_the_one_of_a_full_engine(seconds):
    rows = list(range(1, len(seconds) + 1))
    size = best_size(rows, seconds, is_full=True)
    most = max(each / taken for each, taken in zip(rows, seconds, strict=True))
    assert size / seconds[size - 1] >= most / 1.0101


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8), st.booleans())
def test_whatever_was_measured_somebody_takes_the_step(seconds, is_full):
    sharing, rows = Sharing(), list(range(1, len(seconds) + 1))
    for each, taken in zip(rows, seconds, strict=True):
        for _ in range(20):
            sharing.note(each, taken)
    assert 1 <= sharing.size(rows, is_full=is_full) <= len(rows)


def test_times_are_known_once_they_are_steady():
    times = RowTimes()
    for number in range(9):
        assert times.seconds is None
        times.note(7.0 if number == 0 else 2.0)
    assert times.seconds == 2.0, "the first one prepares, and does not count"


def test_times_that_spread_are_not_known():
    times, rng = RowTimes(), Random(0)
    for _ in range(200):
        times.note(rng.uniform(1.0, 2.0))
        assert times.seconds is None


def test_until_the_curve_is_known_all_share_but_for_a_step_to_learn_from():
    sharing = Sharing()
    sizes = [sharing.size(ROWS, is_full=True) for _ in range(4 * LEARN_EVERY)]
    others = [i for i, size in enumerate(sizes) if size != 4]
    assert others == [LEARN_EVERY * n - 1 for n in range(1, 5)]


def test_a_curve_that_stays_rough_is_asked_for_less_often():
    sharing, rng = Sharing(), Random(0)
    for _ in range(100):
        for rows in ROWS:
            sharing.note(rows, rng.uniform(1.0, 2.0) * rows)
    sizes = [sharing.size(ROWS, is_full=True) for _ in range(4 * KEEP_EVERY)]
    assert sum(size != 4 for size in sizes) <= 4


def test_equal_jobs_that_come_together_are_made_one_after_the_other():
    engine, clock = warmed()
    began = clock.now
    futures = [engine.add(a_request(name, clock), None) for name in "abcd"]
    ends = [end - began for end in ends_of(engine, clock, *futures)]
    assert max(ends) == pytest.approx(40.0, abs=1.0), "nothing is lost"
    assert sum(ends) / 4 <= 28.0, "all would end at 40 if they shared every step"


def test_a_short_job_passes_a_long_one_and_not_one_that_waits_long_enough():
    engine, clock = warmed()
    long = engine.add(a_request("long", clock, steps=50), None)
    for _ in range(10):
        engine.step()
    short = engine.add(a_request("short", clock, steps=5), None)
    first, last = ends_of(engine, clock, short, long)
    assert first < last


def test_nobody_starves_though_short_jobs_never_end():
    engine, clock = warmed()
    long, number = engine.add(a_request("long", clock, steps=20), None), 0
    while not long.done():
        while len(engine.running) < 4:
            engine.add(a_request(f"short-{number}", clock, steps=2), None)
            number += 1
            engine.step()
        engine.step()
        assert number < 2000


def test_a_deadline_lets_a_job_begin_in_time():
    engine, clock = warmed()
    before = [engine.add(a_request(name, clock, steps=20), None) for name in "abc"]
    due_at = clock.now + 30.0
    urgent = replace(a_request("urgent", clock, steps=20), deadline_at=due_at)
    urgent = engine.add(urgent, due_at)
    engine.step()
    ends = ends_of(engine, clock, urgent, *before)
    assert ends[0] == min(ends)


def test_the_images_of_one_job_are_ranked_as_one():
    engine, clock = warmed()
    many = engine.add(a_request("many", clock, steps=10, n=3), None)
    one = engine.add(a_request("one", clock, steps=10), None)
    of_one, of_many = ends_of(engine, clock, one, many)
    assert of_one < of_many


@pytest.mark.parametrize("parts", [1, 4])
def test_steps_of_parts_of_images_are_shared_by_all_and_say_nothing(parts):
    engine, clock = warmed()
    for name in "abcd":
        engine.add(a_request(name, clock), None)
    engine.step()
    for slot in engine.running[:parts]:
        slot.sample.masked = 0.2
    runner = engine.running[0].ticket.runner
    noted = times_noted(engine)
    for _ in range(5):
        runner.batches.clear()
        engine.step()
        assert [len(batch) for batch in runner.batches] == [4]
    assert times_noted(engine) == noted


def times_noted(engine):
    sharings = engine._batch.next_batch._sharing.values()
    return sum(times.count for sharing in sharings for times in sharing._times.values())


def test_the_longest_step_is_that_of_the_slowest_model_as_far_as_it_is_known():
    batch = NextBatch(8)
    slots = [SimpleNamespace(ticket=SimpleNamespace(runner=FakeRunner(name))) for name in "abc"]
    assert batch.slowest_s([]) == batch.slowest_s(slots) == 0.0
    batch.step_s = {"a": 1.0, "b": 2.0, "gone": 9.0}
    assert batch.slowest_s(slots) == 2.0


def a_slot(*, model="tiny", group="g", rows=1, runner=None, **request):
    runner = runner or FakeRunner(model)
    ticket = Ticket(job=a_job("a", **request), runner=runner, due_at=0.0, deadline=None)
    return Slot(ticket=ticket, index=0, sample=Sample(group=(group,), rows=rows, num_steps=4))


def test_the_times_of_few_groups_are_kept_those_of_the_last_used_ones():
    batch = NextBatch(8)
    for number in range(MAX_GROUPS + 9):
        for group in ("always", number):
            batch.note([a_slot(group=group)], 1.0, is_whole=True)
    assert len(batch._sharing) == MAX_GROUPS
    assert {group for _, group in batch._sharing} == {"always", *range(10, MAX_GROUPS + 9)}
    [always] = [sharing for (_, group), sharing in batch._sharing.items() if group == "always"]
    assert always._times[1].count == MAX_GROUPS + 9, "it was never forgotten"


def test_what_is_known_of_a_model_goes_with_it_and_what_is_known_of_others_stays():
    batch = NextBatch(8)
    for name in "ab":
        batch.note([a_slot(model=name)], 1.0, is_whole=True)
    batch.forget("a")
    assert batch.step_s.keys() == batch.step_images.keys() == {"b"}
    assert [model for model, _ in batch._sharing] == ["b"]
    assert batch.most_sharing("a") == 0, "as many as there are"


def test_ranks_rise_by_what_is_left():
    engine, clock = warmed()
    for steps in (5, 10, 20):
        engine.add(a_request(f"s{steps}", clock, steps=steps), None)
    engine.step()
    ranks = [
        rank(slot, 1.0, 3.0)
        for slot in sorted(engine.running, key=lambda s: s.ticket.job.request.steps)
    ]
    assert all(one < other for one, other in pairwise(ranks))


def test_a_worker_says_how_many_share_a_step_once_it_knows() -> None:
    engine, clock = an_engine()
    assert engine.stats().most_sharing == {}
    engine.add(a_request("first", clock), None)
    engine.step()
    assert engine.stats().most_sharing == {"tiny": 0}
    assert warmed()[0].stats().most_sharing == {"tiny": 1}


def test_times_are_summed_up_again_after_as_many_as_before():
    times = RowTimes()
    for _ in range(9):
        times.note(2.0)
    assert times.seconds == 2.0
    for _ in range(8):
        times.note(4.0)
    assert times.seconds == 2.0
    times.note(4.0)
    assert times.seconds == 4.0, "nine of seventeen took as long"


@pytest.mark.parametrize("middle", [0.1, 1.0])
@pytest.mark.parametrize(
    "spread, count, is_known", [(0.02, 64, True), (0.02, 9, False), (0.06, 64, False)]
)
def test_times_are_known_by_how_far_their_median_may_be_off(middle, spread, count, is_known):
    times = RowTimes()
    for number in range(1 + count):
        times.note(middle * (1 + spread * (number % 3 - 1)))
    assert (times.seconds is not None) is is_known


def known(seconds, *, times=20):
    sharing = Sharing()
    for rows, taken in zip(ROWS, seconds, strict=False):
        for _ in range(times):
            sharing.note(rows, taken)
    return sharing


@pytest.mark.parametrize("curve, size", [(LINEAR, 1), (SUBLINEAR, 4)])
def test_short_steps_are_shared_as_long_ones_are(curve, size):
    sharing = known([0.01 * each for each in curve])
    assert sharing.most == 0
    assert sharing.size(ROWS, is_full=False) == size
    assert sharing.most == 0, "slots are free"
    assert sharing.size(ROWS, is_full=True) == sharing.most == size


def test_how_many_share_is_not_known_once_more_come_than_ever_did():
    sharing = known(LINEAR[:3])
    assert sharing.size(ROWS[:3], is_full=True) == sharing.most == 1
    assert sharing.size(ROWS, is_full=True) == 4 and sharing.most == 0


def test_a_step_to_learn_from_is_of_a_size_that_was_never_taken():
    sharing = Sharing()
    for rows in (1, 3, 4):
        sharing.note(rows, 1.0)
    sizes = [sharing.size(ROWS, is_full=True) for _ in range(LEARN_EVERY)]
    assert sizes == [4] * (LEARN_EVERY - 1) + [2]


def test_what_stays_rough_for_as_many_steps_as_are_kept_is_learnt_no_more():
    sharing, rng = Sharing(), Random(0)
    for _ in range(WINDOW):
        for rows in ROWS:
            sharing.note(rows, rng.uniform(1.0, 2.0) * rows)
    assert [sharing.size(ROWS, is_full=True) for _ in range(LEARN_EVERY)] == [4] * LEARN_EVERY


@pytest.mark.parametrize("second, size", [(1.93, 2), (1.95, 1)])
def test_a_step_costs_those_who_come_too(second, size):
    """Two rows: 33 seconds of theirs for one at a time, 17 for each second of both."""
    assert best_size([1, 2], [1.0, second], is_full=False) == size


def test_a_rank_counts_a_step_of_the_fewest_rows():
    batch, runner = NextBatch(8), FakeRunner()
    slots = [a_slot(rows=rows, runner=runner) for rows in (1, 2)]
    for rows in (1, 2, 3):
        for _ in range(20):
            batch.note([a_slot(rows=rows)], float(rows), is_whole=True)
    ranked = batch._rank(slots)
    assert [ranked(slot) for slot in slots] == [rank(slot, 1.0, 3.0) for slot in slots]
