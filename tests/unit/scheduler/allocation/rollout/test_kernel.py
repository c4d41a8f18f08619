import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.rollout.inputs import Changes, Levels, RolledFleet, RolledJobs
from scheduler.allocation.rollout.kernel import NEVER
from scheduler.allocation.rollout.kernel import roll as roll_until

UNTIL_S = 60.0
NOTHING = Changes(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))


def roll(*parts) -> float:
    """Give what is earned alone."""
    return roll_until(*parts, (UNTIL_S, UNTIL_S)).earned


def levels(*seconds: float, quality: tuple[float, ...] = ()) -> Levels:
    """One level a model; the others that share a worker cost nothing."""
    worth = quality or tuple(1.0 for _ in seconds)
    return Levels(
        model=np.arange(len(seconds)),
        seconds=np.array(seconds).reshape(-1, 1, 1),
        quality=np.array([worth]),
        caution=0.0,
    )


def fleet(*models: int, slots: int = 1, claims_s: float = 0.0) -> RolledFleet:
    count = len(models)
    return RolledFleet(
        kind=np.zeros(count, np.int64),
        model=np.array(models, np.int64),
        free_s=np.zeros((count, slots)),
        claims_s=np.full(count, claims_s),
    )


def jobs(
    *at: float,
    waiting: tuple[tuple[float, int], ...] = (),
    promised_s: float = 10.0,
    bears_s: float | None = None,
    images: int = 1,
) -> RolledJobs:
    """Each image of a job comes by itself; so does each of those that wait; turns are even."""
    at = tuple(moment for moment in at for _ in range(images))
    count, none = len(waiting) + len(at), np.zeros(len(waiting) + len(at), np.int64)
    return RolledJobs(
        at_s=np.array([0.0] * len(waiting) + list(at), float),  # of ints it would be compiled anew
        age_s=np.array([age for age, _ in waiting] + [0.0] * len(at)),
        promised_s=np.full(count, promised_s),
        bears_s=np.full(count, promised_s if bears_s is None else bears_s),
        weight=np.full(count, 1 / images),
        turn=(np.arange(count) + 0.5) / max(1, count),
        kind=none,
        level=np.array([level for _, level in waiting] + [-1] * len(at), np.int64),
        cell=np.zeros(count, np.int64),
    )


def rows(*shares: float, later: tuple[float, ...] = ()) -> np.ndarray:
    return np.array([[[shares]], [[later or shares]], [[later or shares]]], float)


@settings(max_examples=30, deadline=None)
@given(
    arrivals=st.lists(st.floats(0.0, 30.0), min_size=1, max_size=40),
    workers=st.integers(1, 4),
    seconds=st.floats(0.5, 6.0),
)
def test_one_level_is_served_first_come_first_served(
    arrivals: list[float], workers: int, seconds: float
) -> None:
    arrivals.sort()
    free = [0.0] * workers
    in_time = 0
    for at in arrivals:
        begin = max(at, free[0])
        free[0] = begin + seconds
        in_time += free[0] - at <= 10.0
        free.sort()
    found = roll(levels(seconds), fleet(*[0] * workers), NOTHING, jobs(*arrivals), rows(1.0), 0.0)
    assert found == pytest.approx(in_time)


def eighths(least: int, most: int) -> st.SearchStrategy[float]:
    """Times whose sums are exact: who comes as somebody goes comes at that very time."""
    return st.integers(8 * least, 8 * most).map(lambda number: number / 8)


@settings(max_examples=40, deadline=None)
@given(
    arrivals=st.lists(eighths(0, 30), min_size=1, max_size=40),
    leaves=st.lists(eighths(1, 40), max_size=3),
    claims_s=eighths(0, 6),
)
def test_who_is_about_to_go_begins_nothing_that_would_wait_for_longer(
    arrivals: list[float], leaves: list[float], claims_s: float
) -> None:
    """Workers go one after the other; the last stays, and is left with what they did not begin."""
    arrivals.sort()
    until = [*(at + claims_s for at in sorted(leaves)), NEVER]
    free, in_time = [0.0] * len(until), 0
    for at in arrivals:
        begins = [max(at, each) for each in free]
        able = [
            i for i, begin in enumerate(begins) if begin < until[i] and at < until[i] - claims_s
        ]
        chosen = min(able, key=lambda i: (begins[i], i))
        free[chosen] = begins[chosen] + 3.0
        in_time += free[chosen] - at <= 10.0
    workers = np.arange(len(leaves))
    changes = Changes(np.array(sorted(leaves)), workers, np.ones(len(leaves), np.int64))
    board = levels(3.0, 3.0, quality=(1.0, -1e3))
    going = fleet(*[0] * len(until), claims_s=claims_s)
    found = roll(board, going, changes, jobs(*arrivals), rows(1.0, 0.0), 0.0)
    assert found == pytest.approx(in_time)


def test_if_all_go_they_begin_what_waits_and_their_successors_make_it() -> None:
    change = Changes(np.array([1.0]), np.array([0]), np.array([1]))
    board = levels(4.0, 4.0, quality=(1.0, 0.5))
    assert roll(board, fleet(0), change, jobs(0.0, 0.5), rows(1.0, 0.0), 0.0) == 2.0


def test_a_level_that_nobody_holds_leaves_its_turns_to_the_others() -> None:
    board = levels(0.1, 0.1, 0.1, quality=(1.0, 0.5, 0.25))
    found = roll(board, fleet(0, 2), NOTHING, jobs(*range(8)), rows(0.2, 0.2, 0.6), 0.0)
    assert found == pytest.approx(2 * 1.0 + 6 * 0.25)


def test_a_row_is_followed_to_within_a_job() -> None:
    found = roll(
        levels(0.1, 0.1, quality=(1.0, 0.5)),
        fleet(0, 1),
        NOTHING,
        jobs(*range(8)),
        rows(0.25, 0.75),
        0.0,
    )
    assert found == pytest.approx(2 * 1.0 + 6 * 0.5)


def test_a_job_that_would_be_late_goes_where_it_is_in_time() -> None:
    board = levels(6.0, 1.0, quality=(1.0, 0.5))
    found = roll(board, fleet(0, 1), NOTHING, jobs(0.0, 0.1, 0.2), rows(1.0, 0.0), 0.0)
    assert found == pytest.approx(1.0 + 0.5 + 0.5)


def test_who_passes_others_is_in_time_after_all_but_is_placed_as_if_it_waited() -> None:
    board, crowd = levels(4.0, 3.0, quality=(1.0, 0.5)), [0.0] * 4
    patient = jobs(*crowd, promised_s=9.0, bears_s=40.0)
    assert roll(board, fleet(0), NOTHING, patient, rows(1.0, 0.0), 0.0) == 4.0
    assert roll(board, fleet(0, 1), NOTHING, patient, rows(1.0, 0.0), 0.0) == 2 * 1.0 + 2 * 0.5
    strict = jobs(*crowd, promised_s=9.0)
    assert roll(board, fleet(0), NOTHING, strict, rows(1.0, 0.0), 0.0) == 2.0


def test_a_level_that_is_not_allowed_earns_nothing_and_relieves_nobody() -> None:
    board = levels(6.0, 1.0, quality=(1.0, -1e3))
    assert roll(board, fleet(0, 1), NOTHING, jobs(0.0, 0.1), rows(1.0, 0.0), 0.0) == 1.0
    assert roll(board, fleet(1), NOTHING, jobs(0.0, 0.1), rows(1.0, 0.0), 0.0) == 0.0


def test_what_waits_keeps_its_place_and_its_age() -> None:
    board = levels(4.0)
    assert roll(board, fleet(0), NOTHING, jobs(waiting=((5.0, 0), (5.0, 0))), rows(1.0), 0.0) == 1.0
    assert roll(board, fleet(0), NOTHING, jobs(waiting=((7.0, 0),)), rows(1.0), 0.0) == 0.0


def test_a_worker_that_goes_leaves_its_queue_to_the_others() -> None:
    change = Changes(np.array([1.0]), np.array([0]), np.array([1]))
    board = levels(4.0, 1.0, quality=(1.0, -1e3))
    both = fleet(0, 0)._replace(free_s=np.array([[20.0], [0.0]]))
    later = jobs(2.0, promised_s=30.0)
    assert roll(board, both, change, later, rows(1.0, 0.0), 0.0) == 1.0
    tight = jobs(2.0, promised_s=15.0)
    assert roll(board, both, change, tight, rows(1.0, 0.0), 0.0) == 0.0


@pytest.mark.parametrize(("promised_s", "in_time"), [(8.0, 0.0), (12.0, 1.0)])
def test_a_worker_that_comes_takes_its_part_of_what_waits_before_it_serves_newcomers(
    promised_s: float, in_time: float
) -> None:
    """Five jobs of four seconds wait for the other; with both, the next one begins after nine."""
    change = Changes(np.array([1.0]), np.array([1]), np.array([0]))
    crowd = jobs(2.0, waiting=((99.0, 0),) * 5, promised_s=promised_s)
    assert roll(levels(4.0, 4.0), fleet(0, 1), change, crowd, rows(1.0, 0.0), 0.0) == in_time


def test_rows_change_once_loads_are_over() -> None:
    change = Changes(np.array([5.0]), np.array([1]), np.array([1]))
    board = levels(1.0, 1.0, quality=(1.0, 0.5))
    found = roll(board, fleet(0, 0), change, jobs(0.0, 6.0), rows(1.0, 0.0, later=(0.0, 1.0)), 5.0)
    assert found == pytest.approx(1.5)


def test_who_shares_a_worker_takes_longer_and_slots_that_are_not_there_are_not_used() -> None:
    board = levels(4.0)._replace(seconds=np.array([[[4.0, 8.0]]]))
    assert roll(board, fleet(0, slots=2), NOTHING, jobs(0.0, 0.0), rows(1.0), 0.0) == 2.0
    one = fleet(0, slots=2)
    one.free_s[0, 1] = NEVER
    assert roll(board, one, NOTHING, jobs(0.0, 0.0, 0.0), rows(1.0), 0.0) == 2.0


def test_what_workers_still_have_to_do_at_the_end_is_told() -> None:
    crowd = jobs(*[50.0] * 8)
    ends = (UNTIL_S, UNTIL_S)
    found = roll_until(levels(4.0), fleet(0, 0), NOTHING, crowd, rows(1.0), 0.0, ends)
    assert found.behind_s.tolist() == pytest.approx([50.0 + 4 * 4.0 - UNTIL_S] * 2)


def test_images_of_a_job_earn_their_part_of_it() -> None:
    four = jobs(0.0, promised_s=10.0, images=4)
    assert roll(levels(4.0), fleet(0, 0), NOTHING, four, rows(1.0), 0.0) == 1.0
    assert roll(levels(4.0), fleet(0), NOTHING, four, rows(1.0), 0.0) == 0.5


def test_what_comes_soon_is_judged_by_itself() -> None:
    """Two of four jobs come in the first seconds, one of them to the lesser level."""
    board = levels(0.1, 0.1, quality=(1.0, 0.5))
    four = jobs(0.0, 1.0, 30.0, 31.0)._replace(turn=np.array([0.1, 0.9, 0.1, 0.9]))
    parts = (board, fleet(0, 1), NOTHING, four, rows(0.5, 0.5), 0.0)
    found = roll_until(*parts, (10.0, UNTIL_S))
    assert (found.soon, found.soon_jobs) == (pytest.approx(1.5), 2)
    assert found.earned == pytest.approx(3.0)
