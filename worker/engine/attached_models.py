"""Models attached to one engine, with those that detach once no image uses them."""

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

from worker.diffusion.runner import AnyRunner


@dataclass(frozen=True, slots=True, eq=False)
class Leaving:
    """A model that goes once nobody uses it."""

    runner: AnyRunner
    gone: "Future[None]" = field(default_factory=Future)  #: resolved when it is closed


class Attached:
    """The models of one engine, which guards every call by its lock."""

    def __init__(self) -> None:
        self._runners: dict[str, AnyRunner] = {}
        self._leaving: list[Leaving] = []

    @property
    def has_leaving(self) -> bool:
        return bool(self._leaving)

    def add(self, runner: AnyRunner) -> None:
        """Serve a model from now on."""
        self._runners[runner.model.name] = runner

    def get(self, model: str) -> AnyRunner | None:
        """Find the model that new jobs are made with."""
        return self._runners.get(model)

    def remove(self, model: str) -> Leaving | None:
        """Serve a model to new jobs no more; None if it is not served."""
        runner = self._runners.pop(model, None)
        if runner is None:
            return None
        leaving = Leaving(runner)
        self._leaving.append(leaving)
        return leaving

    def take_idle(self, users: Collection[AnyRunner]) -> list[Leaving]:
        """Give the leaving models that are not among those in use, once."""
        idle = [leaving for leaving in self._leaving if leaving.runner not in users]
        self._leaving = [leaving for leaving in self._leaving if leaving not in idle]
        return idle
