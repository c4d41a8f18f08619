"""Draw what every request asks for. Pure.

Each property is drawn from a stream of its own: to change one leaves the others as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.arrivals.gaps import Seconds
from loadgen.mixes.adapters import CONTROLS, LORAS, AdapterService
from loadgen.mixes.masks import MaskTrace, mask_ratios
from loadgen.mixes.popularity import choose, zipf
from loadgen.mixes.prompts import by_difficulty, drifting, steady
from loadgen.prompts import PromptSet, prompt_set
from loadgen.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMix:
    """What requests ask for, beside a prompt."""

    applications: tuple[str, ...] = ()  #: by Zipf's law, the most popular first; none: not named
    model: str | None = None  #: for all; None: any
    steps: int = 0  #: for all; 0: the model's own
    edits: float = 0.0  #: share of the requests that are edits
    masks: MaskTrace = MaskTrace.PRODUCTION
    adapters: AdapterService | None = None  #: whose counts of LoRAs and ControlNets; None: no any
    images: int = 1  #: of a job, at most; each count up to it is as likely
    sizes: tuple[tuple[int, int], ...] = ()  #: width and height, as likely; none: the model's own
    cancels: float = 0.0  #: share of the requests that their clients cancel
    cancel_after_s: float = 5.0  #: on average, exponential
    drift_s: float | None = None  #: the prompts go from easy to hard and back in so long


def draw(
    at_s: Seconds, prompts: PromptSet | Sequence[str], mix: RequestMix | None = None, *, seed: int
) -> Workload:
    """Draw a prompt and the rest of a request for each arrival."""
    mix = mix or RequestMix()
    known = prompts if isinstance(prompts, PromptSet) else prompt_set(prompts)
    size = len(at_s)
    prompt, app, edit, ratio, loras, controls, images, sizes, cancel = (
        np.random.default_rng([seed, 10 + stream]) for stream in range(9)
    )
    width, height = np.array(mix.sizes or ((0, 0),), np.int32).T
    which = sizes.integers(len(width), size=size)
    is_edit = edit.random(size) < mix.edits
    is_canceled = cancel.random(size) < mix.cancels
    period_s = mix.drift_s
    return Workload.of(
        at_s,
        prompts=known.texts,
        prompt=steady(len(known), size, prompt)
        if period_s is None
        else drifting(by_difficulty(known), at_s, period_s=period_s, rng=prompt),
        applications=mix.applications,
        application=choose(zipf(len(mix.applications)), size, app) if mix.applications else -1,
        models=(mix.model,) if mix.model else (),
        model=0 if mix.model else -1,
        steps=mix.steps,
        mask_ratio=np.where(is_edit, mask_ratios(mix.masks, size, ratio), 0.0)
        if mix.edits
        else 0.0,
        loras=LORAS[mix.adapters].draw(size, loras) if mix.adapters else 0,
        controls=CONTROLS[mix.adapters].draw(size, controls) if mix.adapters else 0,
        images=images.integers(1, mix.images + 1, size) if mix.images > 1 else 1,
        width=width[which] if mix.sizes else 0,
        height=height[which] if mix.sizes else 0,
        cancel_s=np.where(is_canceled, cancel.exponential(mix.cancel_after_s, size), np.nan)
        if mix.cancels
        else np.nan,
    )
