"""Regimes of `bench.delivered`: SDXL-like fleets, what comes to them, and what goes wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from core.levels.approximation import skipping
from core.levels.level import Level
from core.model import Model
from loadgen.arrivals.gaps import Seconds
from loadgen.arrivals.patterns import Pattern, arrive
from loadgen.arrivals.twitter import twitter_like
from loadgen.arrivals.varying import RateCurve, along
from loadgen.prompts import PromptSet
from loadgen.workload import Workload
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import EVERY, LevelFamily, Measured, read_measured
from simulator.world import Outage, World
from worker.engine.slowdown import StepTime

KIND = "a100"
STEPS = 50
FIXED = 0.098  #: of an image alone: no step (SDXL at Katz' authors: .28 of 2.88 s)
SLO_S = 12.6  #: Argus §5.1: three times SDXL
WORKERS = 8
SKIPS = (0, 5, 10, 15, 20, 25)
#: model -> seconds of an image, seconds of a load (Accelerate), GiB; Argus, Table 2
MODELS = {
    "sdxl": (4.2, 9.42, 5.14),
    "sd15": (3.84, 5.56, 3.44),
    "small": (2.75, 4.86, 2.32),
    "tiny": (2.18, 2.91, 0.63),
}
BEST = "sdxl"
#: Requests/s that all workers end at K = 0 of the best model.
FULL = WORKERS / MODELS[BEST][0]
PROMPTS_A_CLASS = 20

Quality = Mapping[str, Mapping[str, float]]  #: class -> level -> quality
Shares = Mapping[str, float]


def seconds_of(level: Level) -> float:
    """Seconds of an image at a level, alone."""
    return MODELS[level.model][0] * (FIXED + (1 - FIXED) * (1 - level.approximation.head_start))


def levels() -> list[Level]:
    """Every K of the best model, and the others from noise."""
    caching = [Level(model=BEST, approximation=skipping(k)) for k in SKIPS]
    return [*caching, *(Level(model=m) for m in MODELS if m != BEST)]


def made_up(caching: float, smaller: float) -> tuple[Quality, Shares]:
    """Classes that tolerate more and more; beyond that quality falls with speed to the 1.5th.

    Args:
        caching: mean quality of all prompts at K = 25.
        smaller: mean quality of all prompts at the smallest model.
    """
    tolerated = {"none": 0.0, "little": 0.2, "some": 0.45, "much": 0.7, "most": 0.9}
    shares = {"none": 0.15, "little": 0.25, "some": 0.25, "much": 0.2, "most": 0.15}
    slow = MODELS[BEST][0]
    rows: dict[str, dict[str, float]] = {name: {} for name in tolerated}
    for kinds, at_fastest in ((True, caching), (False, smaller)):
        own = [x for x in levels() if (x.model == BEST) is kinds or x == Level(model=BEST)]
        fastest = slow / min(seconds_of(x) for x in own) - 1
        gaps = {x.name: (slow / seconds_of(x) - 1) / fastest for x in own}
        lost = {
            (c, name): max(0.0, gap - free) ** 1.5
            for c, free in tolerated.items()
            for name, gap in gaps.items()
        }
        whole = sum(shares[c] * loss for (c, name), loss in lost.items() if gaps[name] == 1.0)
        for (c, name), loss in lost.items():
            rows[c][name] = max(0.0, 1 - loss * (1 - at_fastest) / whole)
    return rows, shares


def of_the_zoo() -> tuple[Quality, Shares]:
    """Take the qualities of our own models, judged image by image."""
    family = read_measured(Path("zoo/profile.json")).families[EVERY]
    ours = {"sdxl": "shapes-xl", "sd15": "shapes-m", "small": "shapes-s", "tiny": "shapes-turbo"}
    names = {x.name: x.name.replace(x.model, ours[x.model]) for x in levels()}
    shares = {c: share for c, share in family.shares.items() if share > 0.01}
    whole = sum(shares.values())
    rows = {c: {name: family.quality[c][own] for name, own in names.items()} for c in shares}
    return rows, {c: share / whole for c, share in shares.items()}


def profile(rows: Quality, shares: Shares, *, load: float | None = None) -> Profile:
    """Write down what the scheduler knows; `load`: seconds that every load takes."""
    load_s = {name: load or known[1] for name, known in MODELS.items()}
    models = {
        name: Model(
            name=name,
            family="sdxl",
            default_steps=STEPS,
            step_s=(1 - FIXED) * seconds / STEPS,
            load_s=load_s[name],
            size_gib=gib,
            quality=sum(shares[c] * rows[c][Level(model=name).name] for c in rows),
        )
        for name, (seconds, _, gib) in MODELS.items()
    }
    every = {x.name: sum(shares[c] * rows[c][x.name] for c in rows) for x in levels()}
    measured = Measured(
        load={KIND: load_s},
        steps={
            KIND: {
                name: tuple(
                    StepTime(images=n, is_guided=True, seconds=n * models[name].step_s)
                    for n in range(1, 9)
                )
                for name in models
            }
        },
        fixed={KIND: {name: FIXED * MODELS[name][0] for name in models}},
        families={
            EVERY: LevelFamily(
                levels=tuple(sorted(every, key=lambda name: seconds_of(Level.read(name)))),
                shares=dict(shares),
                quality={"any": every, **rows},
            )
        },
    )
    return Profile(models=models, measured=measured, shares=dict(shares))


def prompts(rows: Quality) -> PromptSet:
    """Write prompts of every class, each a little better or worse than its class."""
    rng = np.random.default_rng(7)
    names = [x.name for x in levels()]
    texts, classes, quality = [], [], []
    for c, row in rows.items():
        means = np.array([row[name] for name in names])
        spread = rng.normal(0, 0.03, (PROMPTS_A_CLASS, 1))
        spread -= spread.mean()
        texts += [f"{c} {number}" for number in range(PROMPTS_A_CLASS)]
        classes += [c] * PROMPTS_A_CLASS
        quality.append(np.clip(means + spread * (means < 1), 0, 1))
    return PromptSet(
        texts=tuple(texts),
        classes=tuple(classes),
        levels=tuple(names),
        quality=np.concatenate(quality),
    )


def world(at_s: Seconds, known: tuple[Quality, Shares], seed: int, **facts: object) -> World:
    """Put a world together: eight workers, one image at a time, unless facts say otherwise."""
    rows, shares = known
    load_s = facts.pop("load_s", None)
    images = facts.pop("images", 1)
    some = prompts(rows)
    rng = np.random.default_rng([seed, 11])
    kind = rng.choice(len(rows), size=len(at_s), p=[shares[c] for c in rows])
    asked = kind * PROMPTS_A_CLASS + rng.integers(0, PROMPTS_A_CLASS, len(at_s))
    return replace(
        World(
            fleet={KIND: WORKERS},
            profile=profile(rows, shares, load=load_s),  # type: ignore[arg-type]
            workload=Workload.of(at_s, prompts=some.texts, prompt=asked, images=images),  # type: ignore[arg-type]
            prompts=some,
            slo_s=SLO_S,
            seed=seed,
        ),
        **facts,  # type: ignore[arg-type]
    )


GENTLE, HARSH = made_up(0.9, 0.85), made_up(0.75, 0.85)
MEAN = 1.0  #: of `FULL`; in the peaks it is what all workers end at their fastest level


def _days(seed: int, seconds: float, rate: float = MEAN * FULL) -> Seconds:
    """Two days in this time, with noise and spikes, as the papers' trace is said to be."""
    return arrive(Pattern.DIURNAL, rate, seconds, seed=seed)


def _square(period_s: float) -> Callable[[int, float], World]:
    def made(seed: int, seconds: float) -> World:
        at_s = arrive(Pattern.SQUARE, MEAN * FULL, seconds, period_s=period_s, seed=seed)
        return world(at_s, GENTLE, seed)

    return made


def _steady(load: float) -> Callable[[int, float], World]:
    def made(seed: int, seconds: float) -> World:
        return world(arrive(Pattern.POISSON, load * FULL, seconds, seed=seed), GENTLE, seed)

    return made


def _ramp(seed: int, seconds: float) -> World:
    return world(arrive(Pattern.RAMP, MEAN * FULL, seconds, seed=seed), GENTLE, seed)


def _several(seed: int, seconds: float) -> World:
    """Jobs of 1 to 8 images, most of them small, on workers that make four at a time."""
    sizes, weights = np.array([1, 2, 4, 8]), [0.55, 0.2, 0.15, 0.1]
    at_s = _days(seed, seconds, MEAN * FULL / float(sizes @ weights))
    drawn = np.random.default_rng([seed, 13]).choice(sizes, p=weights, size=len(at_s))
    return world(at_s, GENTLE, seed, images=drawn, slots=4, slo_s=None)


def _day(seed: int, seconds: float) -> World:
    """Rise and fall of a day with spikes higher and shorter than those of other regimes."""
    rng = np.random.default_rng([seed, 17])
    curve = twitter_like(seconds, seed=seed)
    factor = np.ones(len(curve.at_s))
    for begin in rng.uniform(0, seconds, max(1, round(seconds / 240))):
        since = curve.at_s - begin
        lasts = rng.uniform(10, 40)
        factor += rng.uniform(0.8, 1.6) * ((since >= 0) & (since < lasts))
    spiky = RateCurve(at_s=curve.at_s, per_s=curve.per_s * factor).with_mean(0.95 * FULL)
    at_s = along(spiky, seed=seed)
    return world(at_s[at_s < seconds], GENTLE, seed)


#: Seed and seconds -> the world of a run.
REGIMES: Mapping[str, Callable[[int, float], World]] = {
    "gentle caching": lambda seed, s: world(_days(seed, s), GENTLE, seed),
    "harsh caching": lambda seed, s: world(_days(seed, s), HARSH, seed),
    "the zoo's qualities": lambda seed, s: world(_days(seed, s), of_the_zoo(), seed),
    "60 s loads": lambda seed, s: world(_days(seed, s), GENTLE, seed, load_s=60.0),
    "2 workers": lambda seed, s: world(
        _days(seed, s, MEAN * FULL / 4), GENTLE, seed, fleet={KIND: 2}
    ),
    "SLO 1.5x": lambda seed, s: world(_days(seed, s), GENTLE, seed, slo_s=SLO_S / 2),
    "square 20 s": _square(40.0),
    "square 120 s": _square(240.0),
    "ramp": _ramp,
    "constant .9": _steady(0.9),
    "constant 1.2": _steady(1.2),
    "light": _steady(0.4),
    "1 to 8 images in slots": _several,
    "half the fleet off": lambda seed, s: world(
        _days(seed, s, 0.9 * FULL),
        GENTLE,
        seed,
        outages=(Outage(begin_s=s / 3, end_s=s / 3 + min(300.0, s / 3), workers=WORKERS // 2),),
    ),
    "a day with spikes": _day,
}
CONSTANT = ("constant .9", "constant 1.2")
