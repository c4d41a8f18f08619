import asyncio

import httpx
import msgspec
import pytest

from api.services.placement import (
    MAX_PAUSE_S,
    MOST_LIMITED,
    PAUSE_S,
    LimitedTenants,
    Placements,
    PlanFollower,
    SchedulerClient,
)
from core.errors import NoPlan, SchedulerUnavailable, TooManyRequests
from core.placement import PlacedBy, Placement, PlacementQuery
from run.scheduler import _item
from scheduler.metrics import Metrics
from tests.unit.api.conftest import MODELS, PLAN

QUERY = PlacementQuery(prompt="a", models=("small",))
PLACED = Placement(queue="gen.small", model="small", level="small@0")
BY_PLAN = Placement(queue="gen.small", model="small", level="small@0", placed_by=PlacedBy.PLAN)


class Scheduler:
    """Answers when it is let."""

    def __init__(self, *, is_open=True) -> None:
        self.sizes = []
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.error = None

    async def route(self, queries):
        self.sizes.append(len(queries))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [PLACED] * len(queries)


class Plan:
    """Places everything by the plan."""

    def route(self, query):
        return BY_PLAN


def placements(scheduler, *, budget_s=5.0, now=lambda: 0.0):
    return Placements(scheduler.route, Plan(), budget_s=budget_s, clock=now)


async def test_queries_of_one_moment_travel_in_one_call():
    scheduler = Scheduler()
    several = placements(scheduler)
    answers = await asyncio.gather(*(several.place(QUERY) for _ in range(50)))
    assert answers == [PLACED] * 50
    assert scheduler.sizes == [50]


async def test_what_arrives_while_a_call_is_in_flight_shares_the_next():
    scheduler = Scheduler(is_open=False)
    several = placements(scheduler)
    first = asyncio.create_task(several.place(QUERY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(several.place(QUERY)) for _ in range(9)]
    await asyncio.sleep(0)
    scheduler.gate.set()
    await asyncio.gather(first, *rest)
    assert scheduler.sizes == [1, 9]


async def test_a_scheduler_that_is_too_slow_is_not_waited_for():
    scheduler = Scheduler(is_open=False)
    several = placements(scheduler, budget_s=0.01)
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(several.place(QUERY) for _ in range(3)))
    assert answers == [BY_PLAN] * 3


async def test_who_waits_behind_a_slow_call_goes_by_the_plan_with_it():
    scheduler = Scheduler(is_open=False)
    several = placements(scheduler, budget_s=0.05)
    first = asyncio.create_task(several.place(QUERY))
    await asyncio.sleep(0.01)
    behind = asyncio.create_task(several.place(QUERY))
    async with asyncio.timeout(60):
        assert await asyncio.gather(first, behind) == [BY_PLAN, BY_PLAN]
    assert scheduler.sizes == [1]


@pytest.mark.parametrize("error", [SchedulerUnavailable("down"), ZeroDivisionError()])
async def test_a_scheduler_that_failed_is_left_alone_for_a_moment(error):
    now, scheduler = 100.0, Scheduler()
    several = placements(scheduler, now=lambda: now)
    scheduler.error = error
    assert await several.place(QUERY) == BY_PLAN
    scheduler.error = None
    assert await several.place(QUERY) == BY_PLAN
    assert scheduler.sizes == [1]
    now += PAUSE_S
    assert await several.place(QUERY) == PLACED


async def test_a_query_nobody_can_serve_fails_alone():
    async def route(queries):
        return [NoPlan("nobody holds b") if q.models == ("b",) else PLACED for q in queries]

    several = Placements(route, Plan(), budget_s=5.0)
    nobody = PlacementQuery(prompt="a", models=("b",))
    one, other = await asyncio.gather(
        several.place(QUERY), several.place(nobody), return_exceptions=True
    )
    assert one == PLACED
    assert isinstance(other, NoPlan)


async def test_a_place_with_a_model_that_was_not_asked_for_counts_as_none():
    large = PlacementQuery(prompt="a", models=("large",))
    assert await placements(Scheduler()).place(large) == BY_PLAN


async def test_the_longer_it_fails_the_less_often_it_is_asked():
    now, scheduler = 0.0, Scheduler()
    several = placements(scheduler, now=lambda: now)
    scheduler.error = SchedulerUnavailable("down")
    for _ in range(1000):
        await several.place(QUERY)
        now += 0.1
    assert 1000 * 0.1 / MAX_PAUSE_S <= len(scheduler.sizes) <= 60
    scheduler.error = None
    now += MAX_PAUSE_S
    assert await several.place(QUERY) == PLACED


def client_answering(status, content):
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=content))
    return SchedulerClient(httpx.AsyncClient(transport=transport, base_url="http://scheduler"))


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (500, b""),
        (200, b""),
        (200, b"{}"),
        (200, b"[]"),
        (200, b'{"placements": []}'),
        (200, b'{"placements": [{"queue": "gen.small"}]}'),
        (200, b'{"placements": [7]}'),
        (200, b'{"placements": 7}'),
    ],
)
async def test_an_answer_that_cannot_be_read_counts_as_none(status, content):
    with pytest.raises(SchedulerUnavailable):
        await client_answering(status, content).route([QUERY])


async def test_the_plan_stays_in_force_until_there_is_another():
    plans = [None, PLAN, None]

    async def read():
        return plans.pop(0)

    follower = PlanFollower(read, MODELS)
    with pytest.raises(NoPlan):
        follower.route(QUERY)
    await follower.refresh()
    with pytest.raises(NoPlan):
        follower.route(QUERY)
    await follower.refresh()
    assert follower.route(QUERY) == BY_PLAN
    await follower.refresh()
    assert follower.route(QUERY) == BY_PLAN


async def test_the_api_goes_by_the_plan_and_says_so(client, stack):
    await stack.publish()
    stack.scheduler.is_up = False
    response = await client.post("/v1/jobs", json={"prompt": "a", "model": "small"})
    assert response.status_code == 202
    assert response.json()["placement"]["placed_by"] == "plan"


async def test_without_scheduler_and_plan_there_is_no_worker(client, stack):
    stack.scheduler.is_up = False
    response = await client.post("/v1/jobs", json={"prompt": "a", "model": "small"})
    assert (response.status_code, response.json()["dependency"]) == (503, "worker")
    assert stack.is_untouched()


async def test_who_is_refused_by_the_scheduler_is_told_when_to_ask_again():
    def answer(request):
        refused = _item(TooManyRequests("too long", 51.5, "wait"), Metrics())
        return httpx.Response(200, content=msgspec.json.encode({"placements": [refused]}))

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, base_url="http://scheduler") as client:
        [refusal] = await SchedulerClient(client).route([PlacementQuery(prompt="a", models=())])
    assert isinstance(refusal, TooManyRequests)
    assert (str(refusal), refusal.retry_after_s, refusal.reason) == ("too long", 51.5, "wait")


def test_a_tenant_is_limited_for_as_long_as_it_was_told_or_until_a_job_is_accepted():
    now = 10.0
    limited = LimitedTenants(clock=lambda: now)
    limited.note("anna", 2.0)
    limited.note("ben", 60.0)
    assert "anna" in limited and "carl" not in limited
    now = 12.0
    assert "anna" not in limited and "ben" in limited
    limited.forget("ben")
    assert "ben" not in limited


def test_those_are_forgotten_whose_time_is_over_before_the_others_then_the_first():
    now = 10.0
    limited = LimitedTenants(clock=lambda: now)
    for number in range(MOST_LIMITED):
        limited.note(str(number), 1.0 if number == 5 else 60.0)
    now = 12.0
    limited.note("one more", 60.0)
    assert "0" in limited and "one more" in limited
    limited.note("another", 60.0)
    assert "0" not in limited and "1" in limited and "another" in limited
