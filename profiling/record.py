"""Convert measurements to the profile file that the scheduler reads."""

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import torch
from torch.nn.functional import normalize

from core.levels.level import Level, resumed_levels
from core.model import Model
from profiling.chunks import Chunks
from profiling.generate import nearest
from profiling.plan import MeasurementPlan
from profiling.score import Column, LevelScores
from profiling.table import families
from profiling.times import ModelTimes, tau_s
from scheduler.profile.profile_file import About, Judged, Measured

_LIBRARIES = ("torch", "diffusers", "transformers", "numpy")

#: Of an embedding of a sentence: the search is timed with vectors of this many numbers.
_WIDTH = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What was measured of one model."""

    model: Model
    #: Of its weights.
    digest: str
    timed: ModelTimes
    #: Its images.
    chunks: Chunks


def record(
    plan: MeasurementPlan, parts: Sequence[Part], scores: Mapping[Level, LevelScores], device: str
) -> Measured:
    """Put everything into the form of the file."""
    by_name, retrieval = {part.model.name: part for part in parts}, retrieval_s(plan.remembered)
    timed = {name: part.timed for name, part in by_name.items()}
    tau = {
        level.name: tau_s(level, by_name[level.model].model, timed[level.model], retrieval)
        for level in scores
    }
    return Measured(
        tau={device: tau},
        load={device: {name: each.load_s for name, each in timed.items()}},
        families=families({level: each.quality for level, each in scores.items()}, tau),
        judged={level.name: _judged(each) for level, each in scores.items()},
        steps={device: {name: each.steps for name, each in timed.items()}},
        fixed={device: {name: each.fixed_s for name, each in timed.items()}},
        masking={device: {n: t.masking for n, t in timed.items() if t.masking is not None}},
        size={name: each.size_gib for name, each in timed.items()},
        about=_about(plan, parts, retrieval, device),
    )


def _about(plan: MeasurementPlan, parts: Sequence[Part], retrieval: float, device: str) -> About:
    return About(
        made_at=time.time(),
        device=device,
        prompts=plan.prompts,
        remembered=plan.remembered,
        repeats=plan.repeats,
        steps=plan.steps,
        guidance={part.model.name: part.model.default_guidance for part in parts},
        similarity={p.model.name: _similarity(p, plan) for p in parts if resumed_levels(p.model)},
        retrieval_s=retrieval,
        digests={part.model.name: part.digest for part in parts},
        versions={"python": platform.python_version()} | {n: version(n) for n in _LIBRARIES},
    )


def _judged(scores: LevelScores) -> Judged:
    return Judged(
        quality=float(scores.quality.mean()),
        strict=_mean(scores.strict),
        share=_mean(scores.share),
        scorer=_mean(scores.learned),
    )


def _mean(column: Column | None) -> float | None:
    return None if column is None else float(column.mean())


def _similarity(part: Part, plan: MeasurementPlan) -> float:
    level = resumed_levels(part.model)[0]
    found = [part.chunks.similarity(level, repeat) for repeat in range(plan.repeats)]
    return float(np.mean(found))


def retrieval_s(remembered: int, tries: int = 50) -> float:
    """Measure one search among so many prompts, in memory, on the host."""
    memory = normalize(torch.randn(remembered, _WIDTH), dim=1)
    started = time.thread_time()
    for _ in range(tries):
        nearest(memory[:1], memory)
    return (time.thread_time() - started) / tries
