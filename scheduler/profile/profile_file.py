"""Format of the profile file that `atelier profile` writes and the scheduler reads."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from catalog.masking.costs import MaskingCosts
from core.errors import ConfigurationError
from core.levels.schedule import SCHEDULE_STEPS
from worker.engine.slowdown import StepTime

SMALLER = "sm"  #: family of the exact levels (Argus: smaller models)
CACHED = "ac"  #: family of every level of the best model (Argus: approximate caching)
EVERY = "all"  #: family of every level of every model


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What it is worth to know the optimal level of a prompt (Argus Fig. 9).

    Means of relative quality over all prompts. Random shuffles the same levels among the
    prompts, so it takes the same time.
    """

    optimal: float  #: every prompt at its optimal level
    random: float  #: mean over all shuffles
    low: float  #: 2.5 % of shuffles are lower
    high: float  #: 2.5 % of shuffles are higher
    seconds: float  #: mean tau of an image, with either
    #: optimal / random - 1 with levels chosen on other noise than they are judged on; None with
    #: one repeat
    gain_on_other_noise: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFamily:
    """Some levels, and which of them prompts need. A class is named by its optimal level."""

    levels: tuple[str, ...]  #: fastest first
    shares: Mapping[str, float]  #: level -> share of the prompts it is optimal for
    #: class -> level -> mean quality relative to each prompt's best level; `any` is every prompt
    quality: Mapping[str, Mapping[str, float]]
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the images of one level are like, over all prompts."""

    quality: float  #: mean of what relative quality is computed from
    strict: float | None = None  #: share of images right in every part, if their judge told parts
    share: float | None = None  #: mean share of right parts, of such a judge
    scorer: float | None = None  #: mean score of the learned scorer, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """How a profile was made."""

    made_at: float = 0.0  #: epoch s
    device: str = ""  #: type that the images were made on, and that levels are ordered by
    prompts: int = 0  #: measured at every level
    remembered: int = 0  #: prompts whose latents a level with K > 0 starts from
    repeats: int = 0  #: of each prompt, with other noise and other remembered prompts
    steps: int = 0  #: of a full schedule
    guidance: Mapping[str, float] = field(default_factory=dict)  #: by model
    similarity: Mapping[str, float] = field(default_factory=dict)  #: model -> mean, to neighbours
    retrieval_s: float = 0.0  #: seconds to find the nearest remembered prompt, in memory
    digests: Mapping[str, str] = field(default_factory=dict)  #: model -> SHA-256 of its weights
    versions: Mapping[str, str] = field(default_factory=dict)  #: of libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Whatever is missing is guessed from the model."""

    #: device type -> level -> seconds of the device that one image of default steps takes
    tau: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: device type -> model -> seconds to load it
    load: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: class -> level -> mean relative quality, in [0, 1]; goes before that of `families`
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    families: Mapping[str, LevelFamily] = field(default_factory=dict)  #: by `SMALLER` and so on
    judged: Mapping[str, Judged] = field(default_factory=dict)  #: by level
    #: device type -> model -> times of one step
    steps: Mapping[str, Mapping[str, tuple[StepTime, ...]]] = field(default_factory=dict)
    #: device type -> model -> seconds of one image before its first and after its last step
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: device type -> model -> what its blocks take under masks
    masking: Mapping[str, Mapping[str, MaskingCosts]] = field(default_factory=dict)
    size: Mapping[str, float] = field(default_factory=dict)  #: model -> GiB of weights
    #: model -> SHA-256 of a LoRA's file -> K of 50: so long may images do without it
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    about: About = About()


def read_measured(path: Path) -> Measured:
    """Read a profile, or an empty one if there is no file.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    if not path.exists():
        return Measured()
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=Measured)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    _refuse_nonsense(path, measured)
    return measured


def write_measured(path: Path, measured: Measured) -> None:
    """Write a profile, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")
    aside.replace(path)


def joined(before: Measured, new: Measured) -> Measured:
    """Keep the times of other device types, and what is known of LoRAs, if models are the same."""
    if before.about.digests != new.about.digests:
        return new
    return replace(
        new,
        tau={**before.tau, **new.tau},
        load={**before.load, **new.load},
        steps={**before.steps, **new.steps},
        fixed={**before.fixed, **new.fixed},
        masking={**before.masking, **new.masking},
        bounds={**before.bounds, **new.bounds},
    )


def with_bound(measured: Measured, model: str, sha256: str, skipped: int) -> Measured:
    """Add how long images of a model may do without one LoRA."""
    of_model = {**measured.bounds.get(model, {}), sha256: skipped}
    return replace(measured, bounds={**measured.bounds, model: of_model})


def _refuse_nonsense(path: Path, measured: Measured) -> None:
    if any(not 0 < s < math.inf for s in _seconds(measured)):
        raise ConfigurationError(f"{path}: times must be positive")
    if any(t.images < 1 for row in measured.steps.values() for ts in row.values() for t in ts):
        raise ConfigurationError(f"{path}: steps must be of one image or more")
    if any(not 0 <= q <= 1 for q in _shares(measured)):
        raise ConfigurationError(f"{path}: qualities and shares must lie in [0, 1]")
    if any(not 0 <= k <= SCHEDULE_STEPS for row in measured.bounds.values() for k in row.values()):
        raise ConfigurationError(f"{path}: bounds must lie in [0, {SCHEDULE_STEPS}]")
    for name, family in measured.families.items():
        if abs(sum(family.shares.values()) - 1) > 1e-3:
            raise ConfigurationError(f"{path}: shares of family {name} must add up to 1")
        if unknown := sorted(family.shares.keys() - set(family.levels)):
            raise ConfigurationError(f"{path}: family {name} has no level {unknown[0]}")


def _seconds(measured: Measured) -> Iterator[float]:
    for rows in (measured.tau, measured.load, measured.fixed):
        for row in rows.values():
            yield from row.values()
    for models in measured.steps.values():
        for times in models.values():
            yield from (time.seconds for time in times)


def _shares(measured: Measured) -> Iterator[float]:
    families = measured.families.values()
    for table in (measured.quality, *(family.quality for family in families)):
        for row in table.values():
            yield from row.values()
    for family in families:
        yield from family.shares.values()
    for judged in measured.judged.values():
        figures = (judged.quality, judged.strict, judged.share)
        yield from (each for each in figures if each is not None)
