"""How busy the engine is. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What the engine is doing now."""

    running: int  #: images in the running batch
    waiting: int  #: images that wait for a slot
    step_s: Mapping[str, float]  #: seconds of a denoising step by model, smoothed
    step_images: Mapping[str, float]  #: images that shared it, smoothed alike
    most_sharing: Mapping[str, int]  #: images that share one while every slot is taken; 0: all
    is_alive: bool  #: it takes jobs
