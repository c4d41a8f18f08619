"""How is a model asked for a prompt's image? By its own defaults."""

from core.job import JobRequest
from core.variant import Model


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
