"""Estimate the remaining steps and time of a measurement."""

from collections.abc import Mapping

from core.levels.level import levels_of
from core.model import Model
from profiling.chunks import Chunks
from profiling.plan import MeasurementPlan
from profiling.times import ModelTimes


def steps_left(model: Model, plan: MeasurementPlan, chunks: Chunks) -> int:
    """Count the image steps of what was not made yet."""
    left = 0
    for repeat in range(plan.repeats):
        open_levels = [each for each in levels_of(model) if not chunks.is_there(each, repeat)]
        left += sum(plan.steps_at(level, model) for level in open_levels)
        needs_memory = any(level.approximation.needs_latents for level in open_levels)
        if needs_memory and not chunks.has_memory(repeat):
            left += plan.steps_of_memory(model)
    return left


def cost_s(model: Model, plan: MeasurementPlan, chunks: Chunks, timed: ModelTimes) -> float:
    """Estimate the seconds that are left, from the largest batch that was timed."""
    is_guided = model.default_guidance > 1
    largest = max((t for t in timed.steps if t.is_guided == is_guided), key=lambda t: t.images)
    return steps_left(model, plan, chunks) * largest.seconds / largest.images


def in_words(costs: Mapping[str, float], device: str) -> str:
    """Say how long each model will take."""
    parts = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in costs.items())
    return f"About {sum(costs.values()) / 60:.1f} minutes of {device}: {parts}."
