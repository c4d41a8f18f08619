"""Place jobs: ask the scheduler within a time budget, else follow the last published plan."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import httpx
import msgspec

from core.application import application_key
from core.boards.fleet import QueueDepth
from core.boards.plan import Plan
from core.errors import NoPlan, SchedulerUnavailable, TooManyRequests
from core.job import JobRequest, Priority, Quality
from core.levels.level import resumes
from core.log import get_logger
from core.micro_batch import MicroBatcher, at_most
from core.model import Model
from core.placement import Answer, PlacedBy, Placement, PlacementQuery, shared_queue_of
from core.recipe import edit_works
from core.traits import Use, latent_key, may
from scheduler.routing.route import Router

if TYPE_CHECKING:  # upkeep asks for places as well, and decodes no pictures
    from api.intake.draft import Draft

#: Queries of one call.
MAX_BATCH = 128
#: Seconds for which nobody asks a scheduler that has just failed to answer: once, and at most.
PAUSE_S = 0.1
MAX_PAUSE_S = 2.0
#: Nobody is refused for so short a wait: a second is the least that `Retry-After` can say, and jobs
#: sent within the last one count as waiting, whether they are or not.
LEAST_WAIT_S = 1.0
#: Tenants of whom it is remembered that a limit of theirs refused a job.
MOST_LIMITED = 1000

log = get_logger(__name__)

Route = Callable[[Sequence[PlacementQuery]], Awaitable[Sequence[Answer]]]


def query_of(draft: "Draft", ticket: str, max_wait_slos: float) -> PlacementQuery:
    """Say what decides where a job goes; `ticket` is what it has in line after a refusal."""
    create, request = draft.create, draft.request
    lending = draft.offers if may(Use.BORROW, request) else ()
    edited = draft.offers if request.edit is not None else ()
    return PlacementQuery(
        prompt=create.prompt,
        models=tuple(model.name for model, _ in draft.offers),
        application=application_key(draft.tenant, create.application),
        exact=create.quality is Quality.EXACT,
        steps=None if "steps" in request.filled else request.steps,
        share=request.share,
        rows=create.n,
        tenant=draft.tenant,
        terms=tuple(latent_key(made) for model, made in lending if resumes(model)),
        works=tuple(w for model, made in edited for w in edit_works(draft.id, made, model)),
        slo_s=request.slo_s,
        max_wait_s=_max_wait_s(request, create.deadline_s, max_wait_slos),
        is_batch=create.priority is Priority.BATCH,
        ticket=ticket,
    )


def _max_wait_s(
    request: JobRequest, deadline_s: float | None, max_wait_slos: float
) -> float | None:
    """Say how long a job may take with what is before it; None: any time.

    A deadline is its own limit, and where nobody waits the length of the queue is.
    """
    if deadline_s is not None or request.slo_s is None or request.priority is Priority.BATCH:
        return None
    return max(LEAST_WAIT_S, max_wait_slos * request.slo_s)


def note_waiting(depths: MutableSequence[QueueDepth], queue: str) -> None:
    """Count a job on its queue before the next look says so."""
    name = shared_queue_of(queue)
    for at, depth in enumerate(depths):
        if depth.queue == name:
            depths[at] = replace(depth, waiting=depth.waiting + 1)
            return
    depths.append(QueueDepth(queue=name, waiting=1, oldest_s=0.0))


class LimitedTenants:
    """Tenants whose next jobs a limit of theirs is expected to refuse: these are no demand.

    A job is placed before the store may refuse it. One that is accepted all the same counts for
    the tenant's next one, so that as many are counted as are accepted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}  #: by tenant, on the clock; latest refused last

    def __contains__(self, tenant: str) -> bool:
        return self._until.get(tenant, -math.inf) > self._clock()

    def note(self, tenant: str, wait_s: float) -> None:
        """Note that a limit refuses what a tenant asks for in the next seconds."""
        self.forget(tenant)
        if len(self._until) >= MOST_LIMITED:
            now = self._clock()
            self._until = {name: until for name, until in self._until.items() if until > now}
        if len(self._until) >= MOST_LIMITED:
            del self._until[next(iter(self._until))]
        self._until[tenant] = self._clock() + wait_s

    def forget(self, tenant: str) -> None:
        """Note that a job of a tenant was accepted."""
        self._until.pop(tenant, None)


class SchedulerClient:
    """The scheduler service over HTTP, many queries a call."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def route(self, queries: Sequence[PlacementQuery]) -> list[Answer]:
        """Place each query, in order.

        Raises:
            SchedulerUnavailable: no answer, or none we can read.
        """
        body = msgspec.json.encode({"queries": queries})
        try:
            response = await self._client.post(
                "/route", content=body, headers={"Content-Type": "application/json"}
            )
            response.raise_for_status()
            placed = msgspec.json.decode(response.content)["placements"]
            answers = [_answer(item) for item in placed]
        except (httpx.HTTPError, msgspec.MsgspecError, KeyError, TypeError) as error:
            raise SchedulerUnavailable(type(error).__name__) from error
        if len(answers) != len(queries):
            raise SchedulerUnavailable("answered another number of queries")
        return answers

    async def ready(self) -> None:
        """Raise SchedulerUnavailable unless the scheduler is alive."""
        try:
            (await self._client.get("/healthz")).raise_for_status()
        except httpx.HTTPError as error:
            raise SchedulerUnavailable(type(error).__name__) from error


class _Refusal(msgspec.Struct):
    """How an item that was not placed is answered."""

    error: str
    retry_after_s: float | None = None  #: it may be placed after that
    reason: str = ""


#: Made here, so that both types are known: threads that find out at once end the process
#: (`core/codec`).
_KNOWN = msgspec.json.Decoder(Placement), msgspec.json.Decoder(_Refusal)


def _answer(item: dict[str, object]) -> Answer:
    if "error" not in item:
        return msgspec.convert(item, Placement)
    refusal = msgspec.convert(item, _Refusal)
    if refusal.retry_after_s is None:
        return NoPlan(refusal.error)
    return TooManyRequests(refusal.error, refusal.retry_after_s, refusal.reason)


class Fallback(Protocol):
    """Places from memory."""

    def route(self, query: PlacementQuery) -> Placement:
        """Place a job without the scheduler."""


class PlanFollower:
    """Places by the last published plan, which stays when the store goes away."""

    def __init__(
        self, read: Callable[[], Awaitable[Plan | None]], models: Mapping[str, Model]
    ) -> None:
        self._read = read
        self._models = models
        self._router: Router | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan it goes by; None until one was published."""
        return self._router.plan if self._router is not None else None

    async def refresh(self) -> None:
        """Read the plan and go over to it."""
        plan = await self._read()
        if plan is None:
            return
        if self._router is None:
            self._router = Router(plan, self._models, placed_by=PlacedBy.PLAN)
        elif plan != self._router.plan:
            self._router.follow(plan)

    def route(self, query: PlacementQuery) -> Placement:
        """Place one query by the plan, from noise: only the scheduler knows what is left to use.

        Raises:
            NoPlan: there is no plan, or it serves none of the models asked for.
        """
        if self._router is None:
            raise NoPlan("the scheduler does not answer and no plan has been published yet")
        return self._router.route(query).from_noise()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query that waits for its call."""

    query: PlacementQuery
    at: float  #: on the clock of who waits


class Placements:
    """Asks the scheduler, many at a time, and never longer than its budget."""

    def __init__(
        self,
        route: Route,
        fallback: Fallback,
        *,
        budget_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._route = route
        self._fallback = fallback
        self._budget_s = budget_s
        self._clock = clock
        self._pause_s = PAUSE_S  #: after the next failure; doubles while they follow each other
        self._paused_until = 0.0
        self._calls: MicroBatcher[_Asked, Placement | None] = MicroBatcher(
            self._call, at_most(MAX_BATCH)
        )

    async def place(self, query: PlacementQuery) -> Placement:
        """Place one job; what is asked for while a call is in flight shares the next one.

        Raises:
            NoPlan: nobody can hold any of the models asked for.
            TooManyRequests: it would wait too long.
        """
        answer = None
        if self._clock() >= self._paused_until:
            answer = await self._calls.ask(_Asked(query, self._clock()))
        if answer is None or answer.model not in query.models:
            return self._fallback.route(query)
        return answer

    async def _call(self, asked: Sequence[_Asked]) -> Sequence[Answer | None]:
        """Ask for these; None: whoever waits has waited long enough."""
        if self._clock() < self._paused_until:
            return [None] * len(asked)
        left_s = asked[0].at + self._budget_s - self._clock()
        try:
            async with asyncio.timeout(left_s):
                answers = await self._route([each.query for each in asked])
        except Exception as error:  # whatever it is, the plan is there to go by
            log.warning("placed_by_plan", jobs=len(asked), error=repr(error))
            self._paused_until = self._clock() + self._pause_s
            self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
            return [None] * len(asked)
        self._pause_s = PAUSE_S
        return answers
