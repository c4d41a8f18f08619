"""What a load consists of, as a command line says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import ConfigurationError
from loadgen.arrivals.patterns import BURSTY, PERIOD_S, Pattern, arrive
from loadgen.ask import Option
from loadgen.mixes.mix import RequestMix, draw
from loadgen.prompts import PromptSet
from loadgen.trace import MAX_ROWS, read_trace
from loadgen.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """Requests of a trace, or drawn from an arrival process and a mix."""

    arrivals: Pattern = Pattern.POISSON
    rate: float = 2.0  #: requests/s
    duration_s: float = 20.0
    cv: float = BURSTY  #: of Gamma gaps
    period_s: float = PERIOD_S  #: of a square wave
    trace: Path | None = None  #: in place of an arrival process
    speed: float = 1.0  #: the trace is played so fast
    mix: RequestMix = field(default_factory=RequestMix)
    seed: int = 0

    def workload(self, prompts: PromptSet) -> Workload:
        """Read or draw the requests.

        Raises:
            ConfigurationError: the trace cannot be read, by line and field, or they are too many.
        """
        if self.trace:
            found = read_trace(self.trace, prompts.texts, speed=self.speed)
            app = self.mix.applications[0] if self.mix.applications else None
            return found.filled(application=app, model=self.mix.model, steps=self.mix.steps)
        return self.drawn(prompts, self.rate, self.duration_s, self.seed)

    def drawn(self, prompts: PromptSet, rate: float, duration_s: float, seed: int) -> Workload:
        """Draw requests at another rate, for another time.

        Raises:
            ConfigurationError: they are too many.
        """
        if rate * duration_s > MAX_ROWS:
            said = f"{rate * duration_s:.0f} requests; most are {MAX_ROWS}"
            raise ConfigurationError(f"arrivals: {said}")
        seconds = arrive(
            self.arrivals, rate, duration_s, cv=self.cv, period_s=self.period_s, seed=seed
        )
        return draw(seconds, prompts, self.mix, seed=seed)

    def said(self) -> Mapping[str, Option]:
        """Say it in a few words, to repeat it."""
        said: dict[str, Option] = {"seed": self.seed}
        if self.trace:
            said |= {"trace": str(self.trace), "speed": self.speed}
        else:
            said |= {"arrivals": self.arrivals.value, "rate": self.rate}
            said |= {"duration": self.duration_s}
        if self.arrivals is Pattern.GAMMA:
            said["cv"] = self.cv
        if self.arrivals is Pattern.SQUARE:
            said["period"] = self.period_s
        return said | _said(self.mix)


def _said(mix: RequestMix) -> dict[str, Option]:
    values: dict[str, Option] = {
        "model": mix.model,
        "application": ",".join(mix.applications),
        "steps": mix.steps,
        "edits": mix.edits,
        "masks": mix.masks.value if mix.edits else None,
        "adapters": mix.adapters.value if mix.adapters else None,
        "images": mix.images if mix.images > 1 else None,
        "cancels": mix.cancels,
        "drift": mix.drift_s,
    }
    return {name: value for name, value in values.items() if value}
