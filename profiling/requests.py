"""Build job requests for prompts, by a model's defaults."""

from collections.abc import Sequence

from core.job import JobRequest
from core.model import Model


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


def requests_of(model: Model, prompts: Sequence[str]) -> list[JobRequest]:
    """Ask for an image of each prompt, each from its noise."""
    return [request_of(model, prompt, seed=seed) for seed, prompt in enumerate(prompts)]
