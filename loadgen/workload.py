"""Hold the requests of a load as columns, for live and simulated load alike. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import ConfigurationError
from loadgen.arrivals.gaps import Seconds
from loadgen.ask import Option, TimedRequest

Counts = NDArray[np.int32]
Column = NDArray[Any]

#: Column of indices -> the names that it points into.
NAMES = {"prompt": "prompts", "application": "applications", "model": "models"}
#: Column of counts -> field of a body, which is left out where it is zero.
BODY = {"steps": "steps", "width": "width", "height": "height"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Requests in the order of their arrival; each column has an entry a request."""

    at_s: Seconds  #: after the start, rising
    prompt: Counts  #: index into `prompts`
    prompts: tuple[str, ...]
    application: Counts  #: index into `applications`; -1: none named
    applications: tuple[str, ...] = ()
    model: Counts  #: index into `models`; -1: any
    models: tuple[str, ...] = ()
    steps: Counts  #: 0: as many as the model makes by itself
    images: Counts  #: of a job
    width: Counts  #: pixels; 0: the model's own
    height: Counts  #: pixels; 0: the model's own
    mask_ratio: NDArray[np.float64]  #: share of the image that an edit makes anew; 0: no edit
    loras: Counts  #: how many it brings
    controls: Counts  #: how many it brings
    cancel_s: Seconds  #: after its arrival its client cancels it; nan: never
    #: Other fields of a body -> their values, None where it is left out; live load sends them.
    others: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            if column.shape != self.at_s.shape:
                raise ConfigurationError(f"workload: {name} has not one entry a request")
        if len(self) and not (self.at_s[0] >= 0 and bool(np.all(np.diff(self.at_s) >= 0))):
            raise ConfigurationError("workload: at_s must rise from 0")
        for name, names in NAMES.items():
            _check_names(name, getattr(self, name), len(getattr(self, names)))

    @classmethod
    def of(
        cls,
        at_s: ArrayLike,
        *,
        prompts: Sequence[str] = ("",),
        prompt: ArrayLike = 0,
        applications: Sequence[str] = (),
        application: ArrayLike = -1,
        models: Sequence[str] = (),
        model: ArrayLike = -1,
        steps: ArrayLike = 0,
        images: ArrayLike = 1,
        width: ArrayLike = 0,
        height: ArrayLike = 0,
        mask_ratio: ArrayLike = 0.0,
        loras: ArrayLike = 0,
        controls: ArrayLike = 0,
        cancel_s: ArrayLike = np.nan,
        others: Mapping[str, Column] | None = None,
    ) -> "Workload":
        """Make a workload; what is one value for all takes no memory, and by default says nothing.

        Raises:
            ConfigurationError: the columns do not fit together.
        """
        seconds = np.asarray(at_s, np.float64)
        return cls(
            at_s=seconds,
            prompt=_spread(prompt, np.int32, seconds),
            prompts=tuple(prompts),
            application=_spread(application, np.int32, seconds),
            applications=tuple(applications),
            model=_spread(model, np.int32, seconds),
            models=tuple(models),
            steps=_spread(steps, np.int32, seconds),
            images=_spread(images, np.int32, seconds),
            width=_spread(width, np.int32, seconds),
            height=_spread(height, np.int32, seconds),
            mask_ratio=_spread(mask_ratio, np.float64, seconds),
            loras=_spread(loras, np.int32, seconds),
            controls=_spread(controls, np.int32, seconds),
            cancel_s=_spread(cancel_s, np.float64, seconds),
            others=others or {},
        )

    @property
    def columns(self) -> Mapping[str, Column]:
        """Every column by its name; `others` are not among them but by theirs."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        arrays = {name: value for name, value in own.items() if isinstance(value, np.ndarray)}
        return {**arrays, **self.others}

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def duration_s(self) -> float:
        """From the start to the last arrival."""
        return float(self.at_s[-1]) if len(self) else 0.0

    def between(self, since_s: float, until_s: float) -> "Workload":
        """Keep who arrives from the one moment until before the other; times stay."""
        low, high = np.searchsorted(self.at_s, [since_s, until_s])
        return self[int(low) : int(high)]

    def faster(self, factor: float) -> "Workload":
        """Play it so many times as fast; clients cancel as late as before."""
        return replace(self, at_s=self.at_s / factor)

    def __getitem__(self, rows: slice) -> "Workload":
        own: dict[str, Any] = {name: column[rows] for name, column in self.columns.items()}
        others = {name: own.pop(name) for name in self.others}
        return replace(self, **own, others=others)

    def filled(
        self, *, application: str | None = None, model: str | None = None, steps: int = 0
    ) -> "Workload":
        """Ask for these wherever a request leaves them open."""
        open_steps = np.where(self.steps == 0, steps, self.steps) if steps else self.steps
        named, applications = _filled(self.application, self.applications, application)
        asked, models = _filled(self.model, self.models, model)
        return replace(
            self,
            application=named,
            applications=applications,
            model=asked,
            models=models,
            steps=open_steps.astype(np.int32, copy=False),
        )

    def requests(self, *, seed: int = 0) -> Iterator[TimedRequest]:
        """Write each request as a client sends it, one after another.

        Args:
            seed: of the first image; every request that names none has one of its own.
        """
        for row in range(len(self)):
            yield TimedRequest(
                at_s=float(self.at_s[row]),
                prompt=self.prompts[self.prompt[row]],
                options={"seed": seed + row, **self._options(row)},
                mask_ratio=float(self.mask_ratio[row]),
                loras=int(self.loras[row]),
                controls=int(self.controls[row]),
                cancel_s=None if np.isnan(self.cancel_s[row]) else float(self.cancel_s[row]),
            )

    def _options(self, row: int) -> dict[str, Option]:
        found: dict[str, Option] = {}
        for name, names in (("application", self.applications), ("model", self.models)):
            index = int(getattr(self, name)[row])
            if index >= 0:
                found[name] = names[index]
        for name, column in BODY.items():
            found |= {column: int(getattr(self, name)[row])} if getattr(self, name)[row] else {}
        found |= {"n": int(self.images[row])} if self.images[row] != 1 else {}
        others = {name: column[row] for name, column in self.others.items()}
        return found | {name: value for name, value in others.items() if value is not None}


def _spread(given: ArrayLike, kind: type[np.generic], like: Seconds) -> Column:
    column = np.asarray(given, kind)
    return np.broadcast_to(column, like.shape) if column.ndim == 0 else column


def _filled(
    column: Counts, names: tuple[str, ...], name: str | None
) -> tuple[Counts, tuple[str, ...]]:
    if name is None:
        return column, names
    more = names if name in names else (*names, name)
    return np.where(column < 0, more.index(name), column).astype(np.int32), more


def _check_names(name: str, column: Counts, count: int) -> None:
    lowest = 0 if name == "prompt" else -1
    if len(column) and not (lowest <= int(column.min()) and int(column.max()) < count):
        raise ConfigurationError(f"workload: {name} points outside its {count} names")
