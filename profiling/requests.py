"""Build job requests for prompts, by a model's defaults."""

from core.job import JobRequest
from core.variant import Model
from profiling.plan import mixed
from zoo.prompts import Split


def request_of(model: Model, prompt: str, *, seed: int = 0, steps: int | None = None) -> JobRequest:
    """Ask for an image as large and as steered as the model has it by default."""
    return JobRequest(
        prompt=prompt,
        model=model.name,
        width=model.default_size,
        height=model.default_size,
        steps=steps or model.default_steps,
        guidance=model.default_guidance,
        seed=seed,
    )


def requests_of(model: Model, split: Split, count: int) -> list[JobRequest]:
    """Ask for images of the first prompts of a split, of all difficulties, each from its noise."""
    scenes = mixed(split, 0, count)
    return [request_of(model, scene.caption, seed=seed) for seed, scene in enumerate(scenes)]
