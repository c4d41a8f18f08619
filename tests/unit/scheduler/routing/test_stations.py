from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.cost import Cost
from core.job import Edit, JobRequest
from core.levels.approximation import skipping
from core.request.init_image import InitImage
from core.request.second_pass import SecondPass
from scheduler.routing.holders import SLOWNESS, Kind, StationWorker, guess
from scheduler.routing.stations import (
    CAUTION,
    TIGHT_CAUTION,
    Station,
    Work,
    station_of_kinds,
    station_of_worker,
    work_of,
)
from tests.unit.scheduler.fakes import a_model, a_worker, station_of

MODEL = a_model("base", step_s=0.1)
#: A step of eight takes four times as long as a step of one.
COST = Cost(fixed_s=0.2, steps=((1, 0.1), (8, 0.4)), is_measured=True)
COSTS = {"cpu": {"base": COST}}
REQUEST = JobRequest(
    prompt="a cat", model="base", width=64, height=64, steps=20, guidance=5.0, seed=0
)
WORK = work_of(REQUEST)


def a_station(*, workers: int = 1, present: int = 0, **levels: float) -> Station:
    fleet = [a_worker(f"w{i}", "base") for i in range(workers)]
    fleet[0] = replace(fleet[0], running=present)
    station = station_of(MODEL, fleet, COSTS, {f"base@{k[1:]}": v for k, v in levels.items()})
    assert station is not None
    return station


def joined(servers: Sequence[StationWorker], *, present: int = 0) -> Station:
    kinds: dict[Cost, Kind] = {}
    for server in servers:
        kinds.setdefault(server.cost, Kind(server.cost)).add(server)
    return station_of_kinds(kinds.values(), present=present, mean_steps=30)


def test_a_step_takes_what_was_measured_and_in_between_and_beyond() -> None:
    cost = Cost(steps=((1, 0.1), (2, 0.15), (4, 0.2)))
    assert [cost.step_s(n) for n in (0.5, 1, 2, 3, 4, 6)] == pytest.approx(
        [0.1, 0.1, 0.15, 0.175, 0.2, 0.25]
    )
    assert [Cost(steps=((1, 0.1),)).step_s(n) for n in (0, 1, 3)] == pytest.approx([0.1, 0.1, 0.3])


def test_a_job_alone_takes_its_own_steps() -> None:
    assert a_station().eta_s(WORK) == pytest.approx(20 * 0.1 + 0.2)


def test_where_one_image_takes_each_step_the_others_wait_for_their_turn() -> None:
    linear = {"cpu": {"base": Cost(steps=((1, 0.1), (8, 0.8)), is_measured=True)}}
    worker = replace(a_worker("w", "base"), running=3, most_sharing=1)
    station = station_of_worker(MODEL, worker, linear, {})
    before = 3 * MODEL.default_steps * 0.1
    assert station.eta_s(WORK) == pytest.approx(before + 20 * 0.1)
    assert station.throughput(8) == pytest.approx(1 / (MODEL.default_steps * 0.1))


def test_a_job_in_company_shares_its_steps_and_waits_while_others_begin_or_end() -> None:
    in_company = 20 * (0.1 + 0.3 * 3 / 7) + (1 + 3 * 20 / 30) * 0.2
    assert a_station(present=3).eta_s(WORK) == pytest.approx(in_company)
    assert a_station(present=1).eta_s(WORK, ahead=2) == pytest.approx(in_company)


def test_a_long_job_waits_for_all_that_begin_or_end_meanwhile_once() -> None:
    assert a_station(present=3).eta_s(Work(steps=60)) == pytest.approx(
        60 * (0.1 + 0.3 * 3 / 7) + 4 * 0.2
    )


def test_a_job_of_more_images_than_a_worker_has_slots_shares_as_many_at_a_time() -> None:
    alone_s = a_station(workers=2).eta_s(Work(steps=30, images=12))
    assert alone_s == pytest.approx(30 * 0.4 + 8 * 0.2)


@pytest.mark.parametrize("ahead", [0.5, 2.5, 6.25])
def test_a_step_among_so_many_and_a_half_takes_what_lies_between(ahead: float) -> None:
    once = Work(steps=1)
    others_s = ahead / 30 * 0.2
    expected = 0.1 + 0.3 * ahead / 7 + 0.2 + others_s
    assert a_station().eta_s(once, ahead) == pytest.approx(expected)


def test_a_job_that_finds_no_slot_waits_until_as_many_images_have_left() -> None:
    full = a_station(present=8)
    cycle_s = 30 * 0.4 + 8 * 0.2
    assert full.throughput(8) == pytest.approx(8 / cycle_s)
    alike = Work(steps=30)
    assert full.eta_s(alike, ahead=3) == pytest.approx(4 * cycle_s / 8 + cycle_s)
    assert a_station(workers=2, present=8).eta_s(alike, ahead=3) < cycle_s


def test_others_take_the_steps_that_their_levels_leave() -> None:
    slow, fast = a_station(present=8), a_station(present=8, k0=1.0, k25=1.0)
    assert (slow.mean_steps, fast.mean_steps) == (30, pytest.approx(22.5))
    assert fast.eta_s(WORK, ahead=8) < slow.eta_s(WORK, ahead=8)
    assert a_station(k0=0.25, k25=0.25).mean_steps == pytest.approx(22.5), "however few they are"


def test_a_job_that_runs_has_its_other_steps_to_go() -> None:
    rest = work_of(REQUEST, done=15)
    assert a_station(present=1).rest_s(rest) == pytest.approx(5 * 0.1 + 0.2)
    beside_s = 5 * (0.1 + 0.3 * 3 / 7) + (1 + 3 * 5 / 30) * 0.2
    assert a_station(present=4).rest_s(rest) == pytest.approx(beside_s)
    assert a_station(present=0).rest_s(rest) == pytest.approx(5 * 0.1 + 0.2), "a report is older"


@pytest.mark.parametrize(
    ("request_", "skipped", "done", "steps"),
    [
        (REQUEST, 0, 0, 20),
        (REQUEST, 25, 0, 10),
        (REQUEST, 25, 12, 8),
        (REQUEST, 0, 20, 0),
        (REQUEST, 0, 25, 0),
        (
            replace(REQUEST, edit=Edit(template="k", template_sha256="ab", mask="m", strength=0.5)),
            *(0, 0, 10),
        ),
        (replace(REQUEST, init_image=InitImage(image="k", strength=0.3)), 0, 0, 6),
        (replace(REQUEST, init_image=InitImage(image="k", strength=0.3)), 0, 10, 3),
        (replace(REQUEST, second_pass=SecondPass(scale=2.0, strength=0.5)), 0, 0, 20 + 40),
        (replace(REQUEST, second_pass=SecondPass(scale=2.0, strength=0.5)), 0, 10, 30),
        (replace(REQUEST, second_pass=SecondPass(scale=2.0, strength=0.5, steps=10)), 0, 0, 40),
    ],
)
def test_the_steps_left_are_those_of_the_level_and_the_strength(
    request_: JobRequest, skipped: int, done: int, steps: int
) -> None:
    assert work_of(request_, skipping(skipped), done) == Work(steps=steps)


def test_slow_workers_say_so_by_their_last_steps() -> None:
    worker = replace(a_worker("w0", "base"), step_s=0.4, step_images=1.0)
    slow = station_of_worker(MODEL, worker, COSTS, {})
    assert slow.eta_s(WORK) == pytest.approx(4 * a_station().eta_s(WORK))
    busy = station_of_worker(MODEL, replace(worker, step_images=8.0), COSTS, {})
    assert busy.eta_s(WORK) == pytest.approx(a_station().eta_s(WORK))


@pytest.mark.parametrize(("reported", "counted"), [(1e6, SLOWNESS[1]), (1e-6, SLOWNESS[0])])
def test_a_worker_that_reports_nonsense_counts_as_slow_or_fast_as_one_can_be(
    reported: float, counted: float
) -> None:
    for worker in (
        replace(a_worker("w0", "base"), slowness=reported),
        replace(a_worker("w0", "base"), step_s=0.1 * reported, step_images=1.0),
    ):
        station = station_of_worker(MODEL, worker, COSTS, {})
        assert station.steps_s[0] == pytest.approx(0.1 * counted)


def test_a_guess_is_known_for_one_until_a_step_was_made() -> None:
    worker = a_worker("w0", "base")
    for reported, costs, is_known in (
        (worker, {}, False),
        (worker, {"cpu": {"base": guess(MODEL)}}, False),
        (worker, COSTS, True),
        (replace(worker, step_s=0.1), {}, True),
    ):
        assert station_of_worker(MODEL, reported, costs, {}).is_known == is_known


def test_nobody_knows_when_a_model_that_no_worker_holds_is_done() -> None:
    assert station_of(MODEL, [a_worker("w0", "tiny")], COSTS) is None


def test_workers_of_one_station_count_by_their_slots() -> None:
    fast, slow = (
        StationWorker(cost=Cost(steps=((1, s),)), slots=n) for s, n in ((0.1, 6), (0.5, 2))
    )
    both = joined([fast, slow])
    assert (both.slots, both.steps_s[:2]) == (8, pytest.approx((0.2, 0.4)))
    assert len(both.steps_s) == 6, "as many as may share a step of the larger one"
    assert both.is_known
    assert not joined([fast, slow._replace(is_known=False)]).is_known


def test_what_a_worker_has_taken_and_not_begun_is_before_a_job_as_well() -> None:
    worker = replace(a_worker("w0", "base", running=2), waiting=3)
    assert station_of_worker(MODEL, worker, COSTS, {}).present == 5


def test_a_deadline_leaves_room_for_what_others_cost_and_none_where_nobody_is() -> None:
    for station, room in ((a_station(), 0.0), (a_station(present=8), CAUTION)):
        eta_s, alone_s = station.eta_s(WORK), a_station().eta_s(WORK)
        limit = eta_s + room * (eta_s - alone_s)
        assert station.can_meet(WORK, 0, limit * 1.001)
        assert not station.can_meet(WORK, 0, limit * 0.999)


@pytest.mark.parametrize("present", range(11))
def test_a_deadline_leaves_more_room_where_a_job_is_late_once_all_slots_fill(present: int) -> None:
    limit, station = limit_s(a_station(), present), a_station(present=present)
    assert station.can_meet(WORK, 0, limit * 1.001)
    assert not station.can_meet(WORK, 0, limit * 0.999)


def limit_s(idle: Station, before: float) -> float:
    """The shortest deadline that is taken with so many images there."""
    alone_s, eta_s = idle.eta_s(WORK), idle.eta_s(WORK, before)
    safe_s = max(eta_s, idle.eta_s(WORK, idle.slots - 1))
    tight = eta_s + TIGHT_CAUTION * (eta_s - alone_s)
    return min(tight, safe_s + CAUTION * (safe_s - alone_s))


def test_images_leave_one_after_the_other_and_each_makes_those_behind_it_faster() -> None:
    station = a_station(present=4)
    expected = sum(1 / station.throughput(images) for images in (3, 2, 1))
    assert station._drain_s(4, 1) == pytest.approx(expected)
    two = a_station(workers=2)
    assert two._drain_s(3, 2) == pytest.approx(1 / two.throughput(2))
    above_slots = 2 / station.throughput(8) + 1 / station.throughput(7)
    assert station._drain_s(10, 7) == pytest.approx(above_slots)


@pytest.mark.parametrize(("slots", "left"), [((8, 8), 4), ((8, 8), 10), ((2, 2, 1), 3)])
def test_who_comes_too_late_is_told_when_as_few_are_left_as_it_may_find(
    slots: Sequence[int], left: int
) -> None:
    """As many of each worker."""
    workers = [StationWorker(cost=COST, slots=count) for count in slots]
    idle = joined(workers)
    deadline_s = 1.0001 * limit_s(idle, left)
    busy = replace(idle, present=sum(slots))
    assert busy.retry_s(WORK, 0, deadline_s) == pytest.approx(busy._drain_s(sum(slots), left))


@st.composite
def stations(draw: st.DrawFn) -> Station:
    slots = draw(st.integers(1, 8))
    first, growth = draw(st.floats(0.01, 1.0)), draw(st.floats(0.0, 1.0))
    steps = ((1, first), (8, first * (1 + 7 * growth)))
    cost = Cost(fixed_s=draw(st.floats(0.0, 0.5)), steps=steps, is_measured=True)
    count = draw(st.integers(1, 4))
    workers = [StationWorker(cost=cost, slots=slots)] * count
    station = joined(workers, present=draw(st.integers(0, count * slots)))
    return replace(station, mean_steps=draw(st.floats(5.0, 50.0)))


works = st.builds(Work, steps=st.floats(1.0, 50.0), images=st.integers(1, 4))


@given(stations(), works, st.integers(0, 50), st.integers(0, 50))
def test_more_before_a_job_never_make_it_earlier(
    station: Station, work: Work, some: int, more: int
) -> None:
    assert station.eta_s(work, some) <= station.eta_s(work, some + more) * (1 + 1e-9)


@given(stations(), works, st.floats(0.1, 3.0))
def test_no_more_may_be_before_a_job_than_lets_it_end_in_time(
    station: Station, work: Work, share: float
) -> None:
    empty = replace(station, present=0)
    within_s = share * station.eta_s(work)
    most, free = empty.most_before(work, within_s), station.slots - work.images
    if empty.eta_s(work) > within_s * (1 + 1e-9):
        assert most == max(0, free)
        return
    assert most >= max(0, free)
    assert most == free or empty.eta_s(work, most) <= within_s * (1 + 1e-9)
    full = most + 1e-6 if most >= free else most + station.workers
    assert empty.eta_s(work, full * (1 + 1e-6)) > within_s * (1 - 1e-9)


@pytest.mark.parametrize(("images", "most"), [(1, 0.0), (2, 0.0), (3, 0.0)])
def test_where_a_job_is_late_though_nobody_is_before_it_a_free_slot_is_what_it_may_have(
    images: int, most: float
) -> None:
    cost = Cost(steps=((1, 0.1),), is_measured=True)
    one_slot = joined([StationWorker(cost=cost, slots=1)])
    work = Work(steps=30, images=images)
    assert one_slot.most_before(work, 0.1) == most
    assert one_slot.most_before(Work(steps=30, images=3), 7.5) == 0.0, "two of its own are before"
    assert one_slot.retry_s(work, 0, 0.1) is None
    assert a_station().most_before(WORK, 0.1) == 7


@given(stations(), works, st.integers(0, 50), st.floats(0.1, 3.0))
def test_a_deadline_is_met_by_who_comes_again_when_told_and_nobody_else_did(
    station: Station, work: Work, ahead: int, share: float
) -> None:
    deadline_s = share * station.eta_s(work)
    retry_s = station.retry_s(work, ahead, deadline_s)
    if retry_s is None:
        idle = replace(station, present=0)
        assert not idle.can_meet(work, 0, deadline_s)
        return
    if retry_s == 0:
        assert station.can_meet(work, ahead, deadline_s * (1 + 1e-9))
    else:
        assert not station.can_meet(work, ahead, deadline_s * (1 - 1e-9))
    left = after(station, station.present + ahead, retry_s)
    assert replace(station, present=left).can_meet(work, 0, deadline_s * 1.02)


def after(station: Station, images: float, seconds: float) -> float:
    """Let images leave for so long, in small steps."""
    for _ in range(200):
        images -= station.throughput(images) * seconds / 200
    return max(0.0, images)
