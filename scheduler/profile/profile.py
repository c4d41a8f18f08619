"""Cost and quality of each level on each device: measured, else guessed. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from classifier.classes import Classes
from core.boards.cost import Cost
from core.levels.level import Level, levels_of
from core.model import Model
from scheduler.profile.profile_file import EVERY, SMALLER, Measured
from scheduler.routing.classify import ANY
from scheduler.routing.holders import guess

#: A level that fewer prompts find a start for is left out: it would be exact by another name.
MIN_HIT_RATE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Costs and qualities by level: measured where measured, else the model's own guess."""

    models: Mapping[str, Model]  #: the catalogue, by name
    measured: Measured = field(default_factory=Measured)
    #: Workers can go on from the latents of other prompts: levels that need them are available.
    can_resume: bool = False
    #: device type, model -> what workers saw it cost before they served it, where none is measured
    seen: Mapping[tuple[str, str], Cost] = field(default_factory=dict)
    #: likewise, seconds that workers took to load it
    loaded_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    #: likewise, memory that it takes there, with what it computes
    needs_gib: Mapping[tuple[str, str], float] = field(default_factory=dict)
    #: level that needs latents -> share of prompts that find a start; 1 where nobody counted
    hit_rates: Mapping[str, float] = field(default_factory=dict)
    #: class -> share of prompts, as the classifier in use puts them; empty: as it was measured
    shares: Mapping[str, float] = field(default_factory=dict)
    #: device type -> time of its steps, as workers measure it, in profiled ones; 1 where unknown
    slowness: Mapping[str, float] = field(default_factory=dict)
    #: device type, model -> likewise, of those that workers served, lately or long ago
    model_slowness: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every level that a plan may use, sorted: known in quality, with what it needs there."""
        return tuple(sorted(level for level in self._every_level if self._is_usable(level)))

    def tau_s(self, level: Level, device_type: str) -> float:
        """Seconds of a device, as it runs now, that one image takes; misses counted."""
        slowness = self.model_slowness.get((device_type, level.model))
        if slowness is None:
            slowness = self.slowness.get(device_type, 1.0)
        return slowness * self._mixed(level, lambda each: self._tau_s(each, device_type))

    def cost(self, model: str, device_type: str) -> Cost:
        """Say what an image takes: as profiled, else as workers saw it, else as the model says."""
        measured = self._measured_cost(self.models[model], device_type)
        return measured or self.seen.get((device_type, model)) or guess(self.models[model])

    def load_s(self, model: str, device_type: str) -> float:
        """Seconds to load a model on a device: as workers last saw it, else as profiled."""
        if (seen := self.loaded_s.get((device_type, model))) is not None:
            return seen
        known = self.measured.load.get(device_type, {}).get(model)
        if known is None and model in self.models:
            return self.models[model].load_s
        return known or 0.0  # it is served no more, and no worker need be left with it

    def size_gib(self, model: str, device_type: str) -> float:
        """Memory that a model takes on a device, by its workers; else by its own description."""
        return self.needs_gib.get((device_type, model), self.models[model].size_gib)

    @property
    def sizes_gib(self) -> dict[str, float]:
        """Memory that each model takes where it takes most."""
        types = {device_type for device_type, _ in self.needs_gib} or {""}
        return {name: max(self.size_gib(name, t) for t in types) for name in self.models}

    def quality(self, affinity: str, level: Level) -> float:
        """Mean relative quality of prompts of one class at a level, in [0, 1], misses counted.

        A class that nobody measured is taken to be like all prompts.
        """
        return self._mixed(level, lambda each: self._quality(affinity, each))

    def with_classes(self, classes: Classes) -> "Profile":
        """Tell prompts apart as a classifier does, instead of by levels that were seen to be best.

        A class is taken to lose as much by an approximation as all prompts do, at levels that the
        classifier knows nothing of.
        """
        rows = {**classes.quality, ANY: classes.overall}
        quality = {name: self._completed(row) for name, row in rows.items()}
        measured = replace(self.measured, quality={**self.measured.quality, **quality})
        return replace(self, measured=measured, shares=classes.shares)

    def prior(self, classes: Sequence[str]) -> Mapping[str, float]:
        """Expect prompts of each class before any was seen; shares sum to one."""
        family = self.measured.families.get(self._family)
        known = self.shares or (family.shares if family else {})
        shares = {name: known.get(name, 0.0) for name in classes}
        whole = sum(shares.values())
        if whole <= 0:
            return {classes[0]: 1.0}
        return {name: share / whole for name, share in shares.items()}

    def _completed(self, known: Mapping[str, float]) -> dict[str, float]:
        """Estimate a class at every level of the models that it is known at."""
        row = {
            level.name: min(1.0, known[level.exact.name] * self._kept(level))
            for level in self._every_level
            if level.exact.name in known and level.name in self._of_all
        }
        return row | dict(known)

    def _mixed(self, level: Level, value: Callable[[Level], float]) -> float:
        """Expect a value at a level: a prompt that finds no start is made exactly."""
        hit = self._hit_rate(level)
        return value(level) if hit == 1.0 else hit * value(level) + (1 - hit) * value(level.exact)

    def _tau_s(self, level: Level, device_type: str) -> float:
        known = self.measured.tau.get(device_type, {}).get(level.name)
        if known is not None:
            return known
        steps = self.models[level.model].default_steps * level.approximation.share_of_steps
        return self.cost(level.model, device_type).image_s(steps)

    def _measured_cost(self, model: Model, device_type: str) -> Cost | None:
        times = self.measured.steps.get(device_type, {}).get(model.name, ())
        is_guided = model.is_guided(model.default_guidance)
        steps = sorted((t.images, t.seconds) for t in times if t.is_guided == is_guided)
        if not steps:
            return self._of_tau(model, device_type)
        fixed_s = self.measured.fixed.get(device_type, {}).get(model.name, 0.0)
        return Cost(fixed_s=fixed_s, steps=tuple(steps), is_measured=True)

    def _of_tau(self, model: Model, device_type: str) -> Cost | None:
        """Read the cost of a step from a profile that has none but the time of an image."""
        whole_s = self.measured.tau.get(device_type, {}).get(Level(model=model.name).name)
        if whole_s is None:
            return None
        return Cost(steps=((1, whole_s / model.default_steps),), is_measured=True)

    def _quality(self, affinity: str, level: Level) -> float:
        family = self.measured.families.get(self._family)
        tables = [self.measured.quality, *([family.quality] if family else [])]
        for row in (affinity, ANY):
            for table in tables:
                known = table.get(row, {}).get(level.name)
                if known is not None:
                    return known
        if level.is_exact:
            given = self.models[level.model].quality
            return self._assumed if given is None else given
        return min(1.0, self._quality(affinity, level.exact) * self._kept(level))

    @property
    def _assumed(self) -> float:
        """Take a model of unknown quality for as good as the worst one known; 1 if none is."""
        known = [each.quality for each in self.models.values() if each.quality is not None]
        return min(known, default=1.0)

    def _kept(self, level: Level) -> float:
        """Share of the exact level's quality that a level keeps of all prompts, else a guess."""
        of_all, guess = self._of_all, level.approximation.kept_quality
        if level.name in of_all and of_all.get(level.exact.name):
            return of_all[level.name] / of_all[level.exact.name]
        return 1.0 if guess is None else guess

    @property
    def _of_all(self) -> Mapping[str, float]:
        """Quality of each level that was measured, over all prompts."""
        every = self.measured.families.get(EVERY)
        return every.quality.get(ANY, {}) if every else {}

    @property
    def _every_level(self) -> Iterator[Level]:
        return (level for model in self.models.values() for level in levels_of(model))

    def _is_usable(self, level: Level) -> bool:
        approximation, every = level.approximation, self.measured.families.get(EVERY)
        is_measured = every is not None and level.name in every.levels
        is_there = self.can_resume or not approximation.needs_latents
        is_hit = self._hit_rate(level) >= MIN_HIT_RATE
        return is_there and is_hit and (is_measured or approximation.kept_quality is not None)

    def _hit_rate(self, level: Level) -> float:
        """Expect this share of prompts to find what the level needs."""
        if not level.approximation.needs_latents:
            return 1.0
        return self.hit_rates.get(level.name, 1.0)

    @property
    def _family(self) -> str:
        return EVERY if self.can_resume else SMALLER
