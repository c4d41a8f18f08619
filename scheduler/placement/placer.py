"""Place a batch of jobs: classify, count as demand, route. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.application import DEFAULT, Application
from core.boards.demand import AskedJob, ReportedDemand, Stream
from core.boards.plan import Plan, Usual
from core.errors import NoPlan, TooManyRequests
from core.model import Model
from core.placement import Placement, PlacementQuery
from scheduler.demand.demand import ArrivalWindow
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.backlog import Backlog, Sent
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow, PlacedQuality
from scheduler.profile.profile import Profile
from scheduler.routing.classify import Classifier
from scheduler.routing.route import Router
from scheduler.routing.stations import Work

#: Nobody has reported and nothing is planned.
NO_PLAN = Plan(version=0, fence=0, made_at=0.0, policy="none", assignments={}, pasm=())

#: What becomes of a query: a place, nobody who could make it, or another time to ask again.
Answer = Placement | NoPlan | TooManyRequests

MOST_STREAMS = 1000  #: that are kept
PATIENCE_S = 10.0  #: a client that asks for a model no more by then has given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """When a model was asked for that nobody holds, in epoch s."""

    first: float
    last: float


class Placer:
    """Classifies, counts and routes: all that one request to the scheduler touches."""

    def __init__(
        self,
        models: Mapping[str, Model],
        classifier: Classifier,
        dispatcher: Dispatcher | None = None,
        overflow: Overflow | None = None,
        admission: AdmissionControl | None = None,
    ) -> None:
        """Follow no plan yet.

        Without a `dispatcher` edits go to any worker with their model, without `overflow` jobs
        where the plan has them, and without `admission` too however many come.
        """
        self.models = models
        self.classifier = classifier
        self.applications: Mapping[str, Application] = {}  #: registered ones, by key
        self.arrivals = ArrivalWindow()
        self.wanted: dict[str, Wish] = {}  #: models asked for by name that the plan does not have
        self._streams: dict[tuple[str, tuple[str, ...], bool, bool], Stream] = {}
        self._router = Router(NO_PLAN, models)
        self._dispatcher = dispatcher
        self.overflow = overflow
        self._admission = admission

    @property
    def plan(self) -> Plan:
        return self._router.plan

    @property
    def usual(self) -> dict[str, Usual]:
        """Say what jobs sent to each model lately are like."""
        return dict(self.overflow.backlog.usual) if self.overflow is not None else {}

    @property
    def placed(self) -> PlacedQuality:
        """Say what was placed so far, where placements are looked at."""
        return self.overflow.tally(self.plan) if self.overflow is not None else PlacedQuality()

    def follow(self, plan: Plan) -> None:
        """Route by another plan from now on."""
        self._router.follow(plan)
        self.wanted = {m: w for m, w in self.wanted.items() if not self._router.is_held(m)}

    def forget_models(self) -> None:
        """Look anew which models may make what: some have come, or gone."""
        self._router.forget_models()
        self.wanted = {m: w for m, w in self.wanted.items() if m in self.models}

    def expect(self, profile: Profile) -> None:
        """Expect other qualities: of the classes of another classifier."""
        if self.overflow is not None:
            self.overflow.profile = profile

    def place(
        self, queries: Sequence[PlacementQuery], now: float, classes: Sequence[str] | None = None
    ) -> list[Answer]:
        """Place jobs in order. A job that cannot be placed is demand all the same.

        Without `classes` they are classified here and now.
        """
        if self.overflow is not None:
            self.overflow.backlog.pass_to(now)
        if classes is None:
            classes = self.classifier.classify([query.prompt for query in queries])
        return [self._place(q, c, now) for q, c in zip(queries, classes, strict=True)]

    def asked(self, now: float) -> ReportedDemand:
        """Say what is asked for here, for whoever adds it up."""
        names = (DEFAULT, *self.applications)
        return ReportedDemand(
            rates=tuple(self.rates(now).items()),
            classes={name: self.arrivals.classes(name) for name in names},
            wanted=self._waited(now),
            is_burst=self.arrivals.is_burst(now),
            history=self.arrivals.history.until(now),
            history_end=int(now),
            jobs=self.arrivals.jobs,
        )

    def rates(self, now: float) -> dict[Stream, float]:
        """Expect what will be asked for next, in jobs of default size per second."""
        return self.arrivals.rates(now)

    def _place(self, query: PlacementQuery, affinity: str, now: float) -> Answer:
        if not query.is_again:
            self._count(query, affinity, now)
        try:
            placement = self._router.route(query, affinity)
        except NoPlan as error:
            return error
        if self.overflow is not None:
            placement = self._relieve(self.overflow, placement, query)
            if not query.is_again:
                self.overflow.count(placement)
            if (refusal := self._take(self.overflow, placement, query, now)) is not None:
                return refusal
        queue = self._dispatch(query, placement, now)
        return replace(placement, queue=queue) if queue is not None else placement

    def _relieve(
        self, overflow: Overflow, placement: Placement, query: PlacementQuery
    ) -> Placement:
        """Send a job elsewhere that is foreseen to be late where the plan has it."""
        if query.slo_s is None or query.exact or query.works:
            return placement
        late_s = overflow.backlog.late_s(placement.at, query, self.plan)
        if late_s is None or late_s <= 0:
            return placement
        promised = self.applications.get(query.application or DEFAULT)
        return overflow.relieve(placement, late_s, query, self.plan, promised)

    def _take(
        self, overflow: Overflow, placement: Placement, query: PlacementQuery, now: float
    ) -> TooManyRequests | None:
        """Count a job on its queue, unless it would wait there for too long."""
        backlog, queue = overflow.backlog, placement.queue
        work = backlog.work_of(placement.at, query)
        if (refusal := self._refuse(backlog, queue, work, query, now)) is not None:
            return refusal
        sent = Sent(
            at=now,
            queue=queue,
            work=work,
            is_batch=query.is_batch,
            tenant=query.tenant or "",
        )
        backlog.send(sent, self.plan)
        return None

    def _refuse(
        self, backlog: Backlog, queue: str, work: Work, query: PlacementQuery, now: float
    ) -> TooManyRequests | None:
        """Have admission control look at a job that finds no free slot, or others in line."""
        admission = self._admission
        if admission is None or query.is_again:
            return None
        before = backlog.before(queue, query, admission.max_queue, self.plan, now)
        if before is None or (before.has_slot(work) and not admission.has_lines):
            return None
        return admission.check(queue, work, query, before, now)

    def _dispatch(self, query: PlacementQuery, placement: Placement, now: float) -> str | None:
        if self._dispatcher is None or not query.works:
            return None
        if query.is_again:
            self._dispatcher.forget(query.works)
        return self._dispatcher.dispatch(placement, query.works, now)

    def _count(self, query: PlacementQuery, affinity: str, now: float) -> None:
        models = self._router.candidates(query)
        if not models:
            return
        default_steps = self.models[models[-1]].default_steps
        work = query.rows * query.share * (query.steps or default_steps) / default_steps
        application = query.application or DEFAULT
        if application not in self.applications:
            application = DEFAULT
        self.arrivals.observe(self._stream(application, models, query), affinity, work, now)
        if query.slo_s is not None:
            job = AskedJob(images=query.rows, promised_s=query.slo_s)
            self.arrivals.promise(application, job)
        if len(models) == 1 and not self._router.is_held(models[0]):
            self._wish(models[0], now)

    def _stream(self, application: str, models: tuple[str, ...], query: PlacementQuery) -> Stream:
        """Name the stream of a job; those of the last jobs are kept."""
        is_full = not (query.exact or query.can_resume)
        key = (application, models, query.exact, is_full)
        found = self._streams.get(key)
        if found is None:
            if len(self._streams) >= MOST_STREAMS:
                self._streams.clear()
            found = self._streams[key] = Stream(
                application=application, models=models, is_exact=query.exact, is_full=is_full
            )
        return found

    def _waited(self, now: float) -> dict[str, float]:
        """Say for how long models have been asked for in vain, by clients that still do."""
        self.wanted = {m: w for m, w in self.wanted.items() if now - w.last <= PATIENCE_S}
        return {model: now - wish.first for model, wish in self.wanted.items()}

    def _wish(self, model: str, now: float) -> None:
        before = self.wanted.get(model)
        self.wanted[model] = Wish(first=before.first if before else now, last=now)


def from_noise(answers: Sequence[Answer]) -> list[Answer]:
    """Have every job made from noise: there is nothing to start from."""
    return [each.from_noise() if isinstance(each, Placement) else each for each in answers]
