"""Who may wait, and who is told when to ask again."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.admission import crowd, errors, goodput, measured, served, whole_s
from bench.parts.crowd import Client
from core.boards.cost import Cost
from core.boards.fleet import QueueDepth
from core.errors import NoPlan, TooManyRequests
from core.placement import Placement, PlacementQuery
from scheduler.placement.admission import GRACE_S, AdmissionControl, QueuePromises
from scheduler.placement.backlog import Backlog, Sent
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import NO_PLAN, Placer
from scheduler.routing.classify import OneClass
from scheduler.routing.stations import Work
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker, report_to

MODELS = {"base": a_model("base", load_s=60.0), "tiny": a_model("tiny", quality=0.5)}
#: A full batch of eight makes 30 steps in 12 s.
COSTS = {"cpu": {m: Cost(steps=((1, 0.1), (8, 0.4)), is_measured=True) for m in MODELS}}
PLAN = replace(
    NO_PLAN,
    version=1,
    assignments={"w0": "tiny"},
    resident=("tiny",),
    levels={"tiny@0": 1.0},
    costs=COSTS,
    loads={"cpu": {"base": 60.0, "tiny": 1.0}},
)
ASKED = PlacementQuery(prompt="x", models=("tiny",), slo_s=2.0, max_wait_s=20.0)


def a_placer(*, running: int = 0, max_queue: int = 1000, **waiting: int) -> Placer:
    overflow = Overflow(a_profile(*MODELS.values()))
    admission = AdmissionControl(max_queue=max_queue)
    placer = Placer(MODELS, OneClass(), overflow=overflow, admission=admission)
    placer.follow(PLAN)
    report(placer, running=running, **waiting)
    return placer


def report(placer: Placer, now: float = 0.0, *, running: int = 0, **waiting: int) -> None:
    assert placer.overflow is not None
    depths = [QueueDepth(queue=f"gen.{m}", waiting=n, oldest_s=0.0) for m, n in waiting.items()]
    report_to(placer.overflow.backlog, [a_worker("w0", "tiny", running=running)], depths, now)


def place(placer: Placer, query: PlacementQuery = ASKED, now: float = 0.0) -> object:
    (answer,) = placer.place([query], now)
    return answer


def retry_s(answer: object) -> float:
    assert isinstance(answer, TooManyRequests), answer
    return answer.retry_after_s


def test_jobs_are_taken_until_they_would_wait_too_long_and_what_was_taken_counts_at_once() -> None:
    placer = a_placer(running=8)
    answers = [place(placer, replace(ASKED, ticket=str(i))) for i in range(40)]
    taken = [answer for answer in answers if isinstance(answer, Placement)]
    # 20 s of which 12 s are its own steps in company, at two thirds of an image a second.
    assert len(taken) == int((20 - 12) * 8 / 12)
    assert "tiny has work for" in str(answers[-1])
    assert "longer than 20 s" in str(answers[len(taken)])
    times = [retry_s(answer) for answer in answers[len(taken) :]]
    assert times == sorted(times), "whoever is refused later comes again later"


def test_a_job_that_finds_a_free_slot_is_never_refused_whatever_its_slo() -> None:
    hasty = replace(ASKED, slo_s=0.001, max_wait_s=0.01)
    assert isinstance(place(a_placer(running=7), hasty), Placement)
    assert retry_s(place(a_placer(running=8), hasty)) >= 1.0


def test_what_loading_takes_does_not_count_and_who_waits_is_told_of_it() -> None:
    named = replace(ASKED, models=("base",))
    assert isinstance(place(a_placer(), named), Placement)
    refused = place(a_placer(base=30), named)
    assert retry_s(refused) > 60.0


@pytest.mark.parametrize("query", [replace(ASKED, max_wait_s=None), replace(ASKED, is_again=True)])
def test_some_jobs_wait_as_long_as_it_takes(query: PlacementQuery) -> None:
    assert isinstance(place(a_placer(running=8, tiny=500), query), Placement)


def test_batch_jobs_do_not_count_for_those_that_go_before_them() -> None:
    placer = a_placer(running=4)
    assert placer.overflow is not None
    depth = QueueDepth(queue="gen.tiny", waiting=900, oldest_s=0.0, later=900)
    report_to(placer.overflow.backlog, [a_worker("w0", "tiny", running=8)], [depth], 0.0)
    assert isinstance(place(placer), Placement)
    batch = replace(ASKED, max_wait_s=None, is_batch=True)
    answers = [place(placer, batch) for _ in range(110)]
    assert sum(isinstance(answer, Placement) for answer in answers) == 99
    assert isinstance(place(placer), TooManyRequests), "nor may they fill the queue's last place"


def test_a_full_queue_says_when_a_place_is_free() -> None:
    placer = a_placer(running=8, tiny=20, max_queue=20)
    any_time = replace(ASKED, max_wait_s=None)
    answers = [place(placer, replace(any_time, ticket=str(i))) for i in range(9)]
    assert all("is full" in str(answer) for answer in answers)
    seconds = [retry_s(answer) for answer in answers]
    assert seconds[-1] - seconds[0] == pytest.approx(8 * 12 / 8, rel=0.2)


@pytest.mark.parametrize(("most", "is_taken"), [(8, True), (7, False)])
def test_a_free_slot_is_for_who_has_a_place_on_the_queue(most: int, is_taken: bool) -> None:
    answer = place(a_placer(tiny=7, max_queue=most), replace(ASKED, max_wait_s=None))
    assert isinstance(answer, Placement) is is_taken


def test_nobody_is_refused_where_nobody_serves() -> None:
    placer = Placer(
        MODELS,
        OneClass(),
        overflow=Overflow(a_profile(*MODELS.values())),
        admission=AdmissionControl(max_queue=1),
    )
    placer.follow(PLAN)
    assert [isinstance(place(placer), Placement) for _ in range(3)] == [True] * 3


def test_nobody_is_refused_by_costs_that_are_guessed() -> None:
    placer = a_placer(running=8, tiny=500)
    placer.follow(replace(PLAN, costs={}))
    assert isinstance(place(placer), Placement)


def test_who_was_told_to_come_now_goes_before_others() -> None:
    placer = a_placer(running=8, tiny=6)
    first = replace(ASKED, ticket="first")
    told_s = retry_s(place(placer, first))
    report(placer, told_s, running=8, tiny=4)
    other = replace(ASKED, ticket="other")
    assert isinstance(place(placer, other, told_s), TooManyRequests)
    assert isinstance(place(placer, first, told_s), Placement)
    again = place(placer, first, told_s)
    assert isinstance(again, TooManyRequests), "a place is for one"


@pytest.mark.parametrize("comes", [True, False])
def test_who_comes_as_told_and_finds_a_free_slot_is_in_line_no_longer(comes: bool) -> None:
    placer = a_placer(running=8, tiny=6)
    told_s = retry_s(place(placer, replace(ASKED, ticket="first")))
    report(placer, told_s)
    if comes:
        assert isinstance(place(placer, replace(ASKED, ticket="first"), told_s), Placement)
    report(placer, told_s + 1.5, running=8, tiny=4)
    other = place(placer, replace(ASKED, ticket="other"), told_s + 1.5)
    assert isinstance(other, Placement) is comes


def test_who_never_comes_back_keeps_nobody_out() -> None:
    placer = a_placer(running=8, tiny=6)
    for number in range(50):
        place(placer, replace(ASKED, ticket=str(number)))
    report(placer, 10.0, running=8, tiny=1)
    assert isinstance(place(placer, ASKED, 10.0), Placement), "workers must not become idle"


def test_a_refused_job_is_demand_and_takes_no_place() -> None:
    placer = a_placer(running=8, tiny=500)
    assert not isinstance(place(placer), Placement | NoPlan)
    assert placer.overflow is not None
    assert placer.overflow.backlog.ahead("gen.tiny") == 500
    assert placer.arrivals.arrived == {"default": 1.0}


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=30), st.integers(0, 40))
def test_what_is_taken_would_be_done_within_the_limit_or_finds_a_slot(
    jobs: Sequence[tuple[int, bool]], waiting: int
) -> None:
    backlog = Backlog(MODELS)
    depth = QueueDepth(queue="gen.tiny", waiting=waiting, oldest_s=0.0)
    report_to(backlog, [a_worker("w0", "tiny", running=8 * (waiting > 0))], [depth], 0.0)
    admission = AdmissionControl(max_queue=1000)
    for images, has_ticket in jobs:
        work, query = Work(steps=30, images=images), replace(ASKED, ticket="t" * has_ticket)
        before = backlog.before("gen.tiny", query, 1000, PLAN, 0.0)
        assert before is not None
        station, ahead = before.station, backlog.ahead("gen.tiny")
        if admission.check("gen.tiny", work, query, before, 0.0) is None:
            has_slot = station.present + ahead + images <= station.slots
            assert before.has_slot(work) is has_slot
            assert has_slot or station.eta_s(work, ahead) <= 20.0 + 1e-6
            backlog.send(Sent(at=0.0, queue="gen.tiny", work=work, is_batch=False), PLAN)


def test_jobs_that_are_done_before_any_report_tells_of_them_keep_nobody_out() -> None:
    """Ten a second of a model that makes each in 11 ms: a report is older than all of them."""
    hasty = replace(ASKED, steps=1, slo_s=0.003, max_wait_s=0.03)
    quick = Cost(steps=((1, 0.001), (8, 0.001)), fixed_s=0.01, is_measured=True)
    placer = a_placer()
    placer.follow(replace(PLAN, costs={"cpu": {"tiny": quick}}))
    for number in range(30):
        assert isinstance(place(placer, hasty, now=number / 10), Placement), number
    at_once = [place(placer, hasty, now=3.0) for _ in range(20)]
    assert isinstance(at_once[-1], TooManyRequests), "what comes together is not done yet"
    assert placer.overflow is not None
    placer.overflow.backlog.pass_to(4.0)
    assert placer.overflow.backlog.ahead("gen.tiny") == 0


def test_promises_run_out_and_how_many_are_kept_is_learned() -> None:
    line = QueuePromises()
    for number in range(40):
        line.promise(str(number), 1.0, 5.0, 0.0)
    assert line.images == 40.0
    assert not line.is_due("7", 2.0)
    assert line.is_due("7", 4.5)
    line.keep("7")
    assert len(line) == 39
    line.expire(5.0 + GRACE_S)
    assert (len(line), line.images) == (0, 0.0)
    line.promise("late", 1.0, 5.0, 10.0)
    assert line.images < 0.2


@pytest.mark.parametrize("patient", [1.0, 0.5, 0.0])
def test_at_twenty_times_the_capacity_promises_come_true_and_no_worker_is_idle(
    patient: float,
) -> None:
    setting, seconds = measured(), 36.0  # four batches and a half
    clients = served(setting, crowd(setting, seconds=seconds, patient=patient, seed=3))
    taken = [client for client in clients if client.done_s is not None]
    assert all(client.predicted_s <= 1.1 * setting.limit_s for client in taken)
    assert all(wait_s(client) <= 1.25 * setting.limit_s for client in taken)
    off = sorted(errors(clients))
    assert not off or off[int(0.9 * len(off))] < 0.3
    assert goodput(setting, clients, seconds) > 0.85  # the last batch is not made yet
    assert whole_s(clients) * setting.capacity / len(taken) < 1.35


def wait_s(client: Client) -> float:
    return math.inf if client.done_s is None else client.done_s


def flooded(tenants: dict[str, int], *, max_queue: int = 1000) -> Placer:
    placer = a_placer(running=8, max_queue=max_queue)
    assert placer.overflow is not None
    depth = QueueDepth(
        queue="gen.tiny", waiting=sum(tenants.values()), oldest_s=0.0, tenants=tenants
    )
    report_to(placer.overflow.backlog, [a_worker("w0", "tiny", running=8)], [depth], 0.0)
    return placer


def test_who_floods_a_queue_is_refused_and_nobody_else() -> None:
    placer = flooded({"flood": 500})
    assert isinstance(place(placer, replace(ASKED, tenant="flood")), TooManyRequests)
    assert isinstance(place(placer, replace(ASKED, tenant="other")), Placement)


def test_who_floods_is_the_first_to_be_refused_before_any_report_tells_of_it() -> None:
    placer = flooded({})
    while isinstance(place(placer, replace(ASKED, tenant="flood")), Placement):
        pass
    assert isinstance(place(placer, replace(ASKED, tenant="other")), Placement)


def test_others_are_before_a_job_no_further_than_its_turn() -> None:
    backlog = flooded({"flood": 500, "few": 1, "own": 3}).overflow.backlog  # type: ignore[union-attr]
    assert backlog.ahead("gen.tiny", tenant="new") == 1 + 1 + 1
    assert backlog.ahead("gen.tiny", tenant="own") == 3 + 4 + 1
    assert backlog.ahead("gen.tiny", tenant="flood") == 500 + 1 + 3
    assert backlog.ahead("gen.tiny", tenant="flood", is_batch=True) == 504


def test_a_full_queue_has_room_for_who_has_less_than_a_share_of_it() -> None:
    anytime = replace(ASKED, max_wait_s=None)
    placer = flooded({"flood": 100}, max_queue=100)
    assert isinstance(place(placer, replace(anytime, tenant="flood")), TooManyRequests)
    taken = [place(placer, replace(anytime, tenant="other")) for _ in range(60)]
    assert sum(isinstance(answer, Placement) for answer in taken) == pytest.approx(50, abs=2)
