"""Prompts of a measurement: those that are measured, and those whose latents they start from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.errors import ConfigurationError
from profiling.plan import MeasurementPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSets:
    """What images are made of."""

    measured: Sequence[str]  #: at every level
    remembered: Sequence[Sequence[str]]  #: by repeat: others leave latents to start from each time


class _Line(msgspec.Struct):
    prompt: str


def read_prompts(path: Path) -> list[str]:
    """Read a file of JSON lines, each an object with a `prompt`.

    Raises:
        ConfigurationError: there is no such file, or it holds something else.
    """
    try:
        lines = msgspec.json.Decoder(_Line).decode_lines(path.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f'{path} should hold the prompts to measure with, lines of {{"prompt": ...}}: {reason}'
        ) from error
    return [line.prompt for line in lines]


def sets_of(plan: MeasurementPlan, prompts: Sequence[str]) -> PromptSets:
    """Share prompts out: the first are measured, those after them remembered, repeat by repeat.

    Raises:
        ConfigurationError: there are too few.
    """
    needed = plan.prompts + plan.repeats * plan.remembered
    if len(prompts) < needed:
        raise ConfigurationError(
            f"{len(prompts)} prompts: {plan.prompts} to measure and {plan.repeats} times "
            f"{plan.remembered} to remember need {needed}; bring more, or ask for fewer"
        )
    starts = range(plan.prompts, needed, plan.remembered)
    return PromptSets(
        measured=prompts[: plan.prompts],
        remembered=[prompts[start : start + plan.remembered] for start in starts],
    )
