"""Turn the rows of a workload into queries of the scheduler, each kind of request once. Pure."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.application import DEFAULT
from core.boards.image_work import ImageWork
from core.errors import ConfigurationError
from core.job import Quality
from core.latents import LatentKey
from core.levels.level import resumed_levels
from core.model import Model
from core.placement import PlacementQuery
from loadgen.workload import Workload
from scheduler.routing.classify import ANY
from scheduler.routing.route import best_model
from scheduler.routing.slo import SLO_FACTOR
from simulator.fleet.job import TEMPLATE
from simulator.fleet.step_times import CONTROL, LORA
from simulator.fleet.workers import SETTINGS
from simulator.world import World

#: Rows that are turned into Python's own numbers at a time.
BLOCK = 65_536
#: Kinds that are remembered: masks of edits make as many as there are edits.
MOST_KINDS = 10_000
#: Of whom all jobs are: latents are found among those of one tenant.
TENANT = "simulated"


class RequestRow(NamedTuple):
    """What tells one request from others, beside its prompt and its moment."""

    application: int
    model: int
    steps: int
    images: int
    width: int
    height: int
    mask_ratio: float
    loras: int
    controls: int
    is_exact: bool


#: Those that a workload has, too.
COLUMNS = RequestRow._fields[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """Requests that differ in nothing but prompt and moment."""

    query: PlacementQuery
    slo_s: float
    surcharge: float  #: that adapters add to each step, in steps of one image alone
    works: tuple[ImageWork, ...]  #: of an edit: an image on each model that could make it
    pixels: int  #: of an image; 0: the model's own size


class Arrival(NamedTuple):
    """One request as it comes."""

    row: int
    at_s: float
    affinity: str
    kind: RequestKind
    cancel_s: float  #: nan: never


class Requests:
    """The requests of a world."""

    def __init__(self, world: World) -> None:
        """Prepare.

        Raises:
            ConfigurationError: a request names a model that the world has not.
        """
        self._world = world
        self._models = world.profile.models
        self._kinds: dict[RequestRow, RequestKind] = {}
        known = {text: row for row, text in enumerate(world.prompts.texts)}
        #: [prompts of the workload] -> row of the prompt set
        self.known = np.array([known[text] for text in world.workload.prompts], np.int64)
        names = [world.prompts.classes[row] or ANY for row in self.known]
        self._affinities = names
        for name in world.workload.models:
            if name not in self._models:
                have = ", ".join(sorted(self._models))
                raise ConfigurationError(f"trace: model: {name!r} is none of {have}")

    @property
    def has_edits(self) -> bool:
        """Whether any request is an edit."""
        return bool(len(self._world.workload)) and bool(self._world.workload.mask_ratio.any())

    def arrivals(self) -> Iterator[Arrival]:
        """Give one request after another."""
        for first in range(0, len(self._world.workload), BLOCK):
            some = self._world.workload[first : first + BLOCK]
            at_s, prompts, cancels = (c.tolist() for c in (some.at_s, some.prompt, some.cancel_s))
            rows = zip(at_s, prompts, self._kinds_of(some), cancels, strict=True)
            for row, (moment, prompt, kind, cancel_s) in enumerate(rows, start=first):
                yield Arrival(row, moment, self._affinities[prompt], kind, cancel_s)

    def _kinds_of(self, some: Workload) -> Iterable[RequestKind]:
        columns = [*(getattr(some, name) for name in COLUMNS), _is_exact(some)]
        if all((column == column[0]).all() for column in columns):
            only = self._kind(RequestRow(*(column[0].item() for column in columns)))
            return itertools.repeat(only, len(some))
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return (self._kind(RequestRow(*row)) for row in rows)

    def _kind(self, row: RequestRow) -> RequestKind:
        found = self._kinds.get(row)
        if found is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            found = self._kinds[row] = self._made(row)
        return found

    def _made(self, row: RequestRow) -> RequestKind:
        application, names = self._application(row), self._able(row)
        best = self._models[best_model(names, self._models)]
        slo_s = self._slo_s(row, application, best)
        works = tuple(_work(self._models[name], row) for name in names) if row.mask_ratio else ()
        query = PlacementQuery(
            prompt="",
            models=names,
            application=application,
            exact=row.is_exact,
            steps=row.steps or None,
            rows=row.images,
            tenant=TENANT,
            terms=() if row.mask_ratio else tuple(self._terms(names, row)),
            slo_s=slo_s,
            max_wait_s=None if self._world.deadline_s else SETTINGS.max_wait_slos * slo_s,
        )
        surcharge = LORA * row.loras + CONTROL * row.controls
        return RequestKind(
            query=query,
            slo_s=slo_s,
            surcharge=surcharge,
            works=works,
            pixels=_pixels(best, row) if row.width or row.height else 0,
        )

    def _application(self, row: RequestRow) -> str | None:
        return None if row.application < 0 else self._world.workload.applications[row.application]

    def _able(self, row: RequestRow) -> tuple[str, ...]:
        """List the models that may make a request."""
        if row.model >= 0:
            return (self._world.workload.models[row.model],)
        registered = self._world.applications.get(self._application(row) or DEFAULT)
        names = sorted(set(registered.models if registered else self._models) & set(self._models))
        if row.mask_ratio:
            names = [name for name in names if self._models[name].can_edit] or names
        return tuple(names)

    def _slo_s(self, row: RequestRow, application: str | None, best: Model) -> float:
        registered = self._world.applications.get(application or DEFAULT)
        if registered is not None and registered.slo_s is not None:
            return registered.slo_s
        if self._world.slo_s is not None:
            return self._world.slo_s
        steps = row.steps or best.default_steps
        costs = [self._world.profile.cost(best.name, kind) for kind in self._world.fleet]
        return SLO_FACTOR * min(
            row.images * cost.fixed_s + steps * cost.step_s(row.images) for cost in costs
        )

    def _terms(self, names: tuple[str, ...], row: RequestRow) -> Iterator[LatentKey]:
        for name in names:
            model = self._models[name]
            if resumed_levels(model):
                yield LatentKey(
                    model=name,
                    width=row.width or model.default_size,
                    height=row.height or model.default_size,
                    steps=row.steps or model.default_steps,
                    scheduler=None,
                    is_guided=model.is_guided(model.default_guidance),
                )


def query_of(arrival: Arrival) -> PlacementQuery:
    """Give the query of one request: those of a kind share it, edits have one each."""
    kind = arrival.kind
    if not kind.works:
        return kind.query
    works = tuple(
        replace(work, job=str(arrival.row)) for work in kind.works for _ in range(kind.query.rows)
    )
    return replace(kind.query, works=works)


def _work(model: Model, row: RequestRow) -> ImageWork:
    return ImageWork(
        job="",
        model=model.name,
        steps=row.steps or model.default_steps,
        rows=2 if model.is_guided(model.default_guidance) else 1,
        pixels=_pixels(model, row),
        masked=row.mask_ratio,
        recording=TEMPLATE,
    )


def _pixels(model: Model, row: RequestRow) -> int:
    return (row.width or model.default_size) * (row.height or model.default_size)


def _is_exact(some: Workload) -> NDArray[np.bool_]:
    """Tell who asks that nothing is left out. Shape: [rows]"""
    quality = some.others.get("quality")
    if quality is None:
        return np.zeros(len(some), np.bool_)
    return np.array([each == Quality.EXACT for each in quality], np.bool_)
