"""Place a batch of jobs: classify, count as demand, route. Pure."""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from core.application import DEFAULT, Application, promised_as
from core.boards.demand import AskedJob, ReportedDemand, Stream
from core.boards.plan import Plan, Usual
from core.errors import NoPlan, TooManyRequests
from core.model import Model
from core.placement import Answer, Placement, PlacementQuery
from scheduler.demand.demand import ArrivalHistory, ArrivalSecond, ArrivalWindow, forget
from scheduler.demand.wanted import WantedModels
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


MOST_STREAMS = 1000  #: whose names are kept
MOST_ASKED = 64  #: queries of which it is kept what they add to the demand
DIGITS = 3  #: of the work of a second: histories travel between schedulers
KEPT_JOBS = 100  #: promised alike, to tell how large they are and what they are promised
SET_BACK_S = 10  #: a clock that is turned back by more makes what came by second tell nothing


class ArrivalCounts:
    """What was asked for: by second of the last `window_s`, and classes of the last prompts.

    Work is counted in jobs of one image and default steps, so that a job of eight images
    counts as eight. Source: Argus §4.2 (affinity histogram over the last 1,000 prompts).
    """

    def __init__(self, *, window_s: float = 60.0, lookback: int = 1000) -> None:
        self._window_s, self._lookback = window_s, lookback
        self._started_at: float | None = None
        self._streams: dict[Stream, deque[ArrivalSecond]] = {}
        self._latest: tuple[Stream | None, ArrivalSecond] = (None, ArrivalSecond(-1))
        self._current: ArrivalSecond | None = None  #: of all streams
        self._history = ArrivalHistory()  #: of all streams, before that
        self._classes: dict[str, deque[str]] = defaultdict(deque)
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._planned: dict[str, float] = {}  # application -> jobs/s the plan was made for
        self._jobs: dict[str, deque[AskedJob]] = defaultdict(lambda: deque(maxlen=KEPT_JOBS))
        self.arrived: dict[str, float] = defaultdict(float)  #: application -> work since the start

    def observe(self, stream: Stream, affinity: str, work: float, now: float) -> None:
        """Count one arrival."""
        if self._started_at is None or now < self._started_at:  # the clock was turned back
            self._started_at = now
        second = self._second_of(stream, int(now))
        second.work += work
        second.jobs += 1
        current = self._second(int(now))
        whole = current.work + work
        current.work = whole if whole.is_integer() else round(whole, DIGITS)
        application = stream.application
        self.arrived[application] += work
        classes, counts = self._classes[application], self._counts[application]
        classes.append(affinity)
        counts[affinity] += 1
        if len(classes) > self._lookback:
            counts[classes.popleft()] -= 1

    def promise(self, stream: Stream, job: AskedJob) -> None:
        """Note how large a job is, and what it was promised."""
        self._jobs[promised_as(stream.application, stream.models)].append(job)

    @property
    def jobs(self) -> dict[str, tuple[AskedJob, ...]]:
        """List the last jobs of those that are promised alike."""
        return {name: tuple(jobs) for name, jobs in self._jobs.items()}

    def rates(self, now: float) -> dict[Stream, float]:
        """Expect each stream's arrivals in the next seconds, in jobs of default size per second."""
        return self._window(now).rates()

    def note_plan(self, now: float) -> None:
        """Remember what a plan is made for: more than that is a burst."""
        window = self._window(now)
        self._planned = {name: window.rate(name, jobs=True) for name in window.applications}

    def is_burst(self, now: float) -> bool:
        """Tell whether more arrives for some application than the plan was made for."""
        window = self._window(now)
        planned = {name: self._planned.get(name, 0.0) for name in window.applications}
        return any(window.is_burst(name, above=rate) for name, rate in planned.items())

    def classes(self, application: str) -> Counter[str]:
        """Count the classes of the application's last prompts."""
        return Counter({k: n for k, n in self._counts.get(application, Counter()).items() if n})

    def history(self, now: float) -> tuple[float, ...]:
        """List the work of each second that is over, oldest first."""
        if self._current is not None:
            self._second(int(now))
        return self._history.until(now)

    def _second(self, at: int) -> ArrivalSecond:
        """Give the current second; the one before is history."""
        current = self._current
        if current is not None and current.at > at + SET_BACK_S:  # the clock was turned back
            self._history, current = ArrivalHistory(), None
        if current is None or current.at < at:
            if current is not None:
                self._history.add(current)
            current = self._current = ArrivalSecond(at)
        return current

    def _second_of(self, stream: Stream, at: int) -> ArrivalSecond:
        """Give the current second of a stream: most often the one that was last asked for."""
        latest, second = self._latest
        if latest is stream and second.at == at:
            return second
        seconds = self._streams.get(stream)
        if seconds is None:
            seconds = self._streams[stream] = deque()
        while seconds and seconds[-1].at > at:  # the clock was turned back
            seconds.pop()
        if not seconds or seconds[-1].at != at:
            seconds.append(ArrivalSecond(at))
        self._latest = (stream, seconds[-1])
        return seconds[-1]

    def _window(self, now: float) -> ArrivalWindow:
        forget(self._streams, now - self._window_s, now)
        return ArrivalWindow(
            seconds=self._streams,
            now=now,
            seen_s=0.0 if self._started_at is None else now - self._started_at,
            window_s=self._window_s,
        )


class _Asked(NamedTuple):
    """What one query adds to the demand, whenever it comes."""

    query: PlacementQuery
    applications: Mapping[str, Application]  #: that were registered then
    models: tuple[str, ...]
    stream: Stream
    work: float
    job: AskedJob | None


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
        self.arrivals = ArrivalCounts()
        self.wanted = WantedModels()
        self._router = Router(NO_PLAN, models)
        self._dispatcher = dispatcher
        self.overflow = overflow
        self._admission = admission
        self._asked: dict[int, _Asked] = {}  #: by id of the query, which is kept alive here

    @property
    def plan(self) -> Plan:
        return self._router.plan

    def usual(self, now: float) -> dict[str, tuple[float, Usual]]:
        """Say how many jobs each model was sent of late, and what they are like."""
        return self.overflow.backlog.weighed(now) if self.overflow is not None else {}

    @property
    def placed(self) -> PlacedQuality:
        """Say what was placed so far, where placements are looked at."""
        return self.overflow.tally(self.plan) if self.overflow is not None else PlacedQuality()

    def follow(self, plan: Plan) -> None:
        """Route by another plan from now on."""
        self._router.follow(plan)
        self.wanted.forget(self._router.is_held)

    def forget_models(self) -> None:
        """Look anew which models may make what: some have come, or gone."""
        self._router.forget_models()
        self._asked.clear()
        self.wanted.forget(lambda model: model not in self.models)

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
        if classes is None:
            classes = self.classifier.classify([query.prompt for query in queries])
        return [self.place_one(q, c, now) for q, c in zip(queries, classes, strict=True)]

    def place_one(self, query: PlacementQuery, affinity: str, now: float) -> Answer:
        """Place one job of a class, as `place` does."""
        if self.overflow is not None:
            self.overflow.backlog.pass_to(now)
        return self._place(query, affinity, now)

    def asked(self, now: float) -> ReportedDemand:
        """Say what is asked for here, for whoever adds it up."""
        names = (DEFAULT, *self.applications)
        return ReportedDemand(
            rates=tuple(self.arrivals.rates(now).items()),
            classes={name: self.arrivals.classes(name) for name in names},
            wanted=self.wanted.waited(now),
            is_burst=self.arrivals.is_burst(now),
            history=self.arrivals.history(now),
            history_end=int(now),
            jobs=self.arrivals.jobs,
            usual=self.usual(now),
        )

    def _place(self, query: PlacementQuery, affinity: str, now: float) -> Answer:
        is_demand = query.is_counted and not query.is_again
        if is_demand:
            self._count(query, affinity, now)
        try:
            placement = self._router.route(query, affinity)
        except NoPlan as error:
            return error
        if self.overflow is not None:
            placement = self._relieve(self.overflow, placement, query)
            if is_demand:
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
        late_s = overflow.backlog.late_s(placement.at, query, self._router.plan)
        if late_s is None or late_s <= 0:
            return placement
        promised = self.applications.get(query.application or DEFAULT)
        return overflow.relieve(placement, late_s, query, self._router.plan, promised)

    def _take(
        self, overflow: Overflow, placement: Placement, query: PlacementQuery, now: float
    ) -> TooManyRequests | None:
        """Count a job on its queue, if it is counted, unless it would wait there for too long."""
        backlog, queue = overflow.backlog, placement.queue
        work = backlog.work_of(placement.at, query)
        if (refusal := self._refuse(backlog, queue, work, query, now)) is not None:
            return refusal
        if query.is_counted:
            sent = Sent(now, queue, work, query.is_batch, query.tenant or "")
            backlog.send(sent, self._router.plan)
        return None

    def _refuse(
        self, backlog: Backlog, queue: str, work: Work, query: PlacementQuery, now: float
    ) -> TooManyRequests | None:
        """Have admission control look at a job that finds no free slot, or others in line."""
        admission = self._admission
        if admission is None or query.is_again:
            return None
        before = backlog.before(queue, query, admission.max_queue, self._router.plan, now)
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
        asked = self._asked.get(id(query))
        if asked is None or asked.applications is not self.applications:
            if not (models := self._router.candidates(query)):
                return
            asked = self._remember(query, models)
        self.arrivals.observe(asked.stream, affinity, asked.work, now)
        if asked.job is not None:
            self.arrivals.promise(asked.stream, asked.job)
        if len(asked.models) == 1 and not self._router.is_held(asked.models[0]):
            self.wanted.ask(asked.models[0], now)

    def _remember(self, query: PlacementQuery, models: tuple[str, ...]) -> _Asked:
        """Find what a query adds to the demand; a caller may bring the same one again and again."""
        default_steps = self.models[models[-1]].default_steps
        application = query.application or DEFAULT
        if application not in self.applications:
            application = DEFAULT
        is_full = not (query.exact or query.can_resume)
        if len(self._asked) >= MOST_ASKED:
            self._asked.clear()
        found = self._asked[id(query)] = _Asked(
            query=query,
            applications=self.applications,
            models=models,
            stream=_stream(application, models, query.exact, is_full),
            work=query.rows * query.share * (query.steps or default_steps) / default_steps,
            job=None if query.slo_s is None else AskedJob(query.rows, query.slo_s),
        )
        return found


@lru_cache(MOST_STREAMS)
def _stream(application: str, models: tuple[str, ...], is_exact: bool, is_full: bool) -> Stream:
    return Stream(application=application, models=models, is_exact=is_exact, is_full=is_full)


def from_noise(answers: Sequence[Answer]) -> list[Answer]:
    """Have every job made from noise: there is nothing to start from."""
    return [each.from_noise() if isinstance(each, Placement) else each for each in answers]
