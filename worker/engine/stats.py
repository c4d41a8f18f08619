"""What the engine is doing, and how busy it is. Pure data."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from core.model import Model

#: What is done to images: opened, taken a step further, turned into pixels.
PREPARING, DENOISING, DECODING = "preparing", "denoising", "decoding"
#: Weight of the newest image in what decoding usually takes.
_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """One call of a model that has begun."""

    doing: str  #: `PREPARING`, `DENOISING`, `DECODING`, or something beside images
    model: Model
    shape: Hashable  #: what decides how long it takes, beside the model
    rows: int  #: of the batch
    pixels: int  #: of one image
    jobs: tuple[str, ...]  #: ids of those it is made for
    is_steered: bool  #: it may wait for the ControlNets of other processes

    @property
    def key(self) -> Hashable:
        """What its time is compared by."""
        return (self.doing, self.model.name, self.shape, self.rows)


@dataclass(slots=True, eq=False)
class Activities:
    """What one thread does, one thing at a time; `now` may be read by any other."""

    on_done: Callable[[Activity, float], object]  #: hears of what has ended, and its seconds
    now: Activity | None = None
    decoding_s: dict[str, float] = field(default_factory=dict)  #: of an image, by model, smoothed

    def note_decoding(self, model: str, seconds: float) -> None:
        """Note how long it has taken to decode an image."""
        usual_s = self.decoding_s.get(model, seconds)
        self.decoding_s[model] = usual_s + _SMOOTHING * (seconds - usual_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What the engine is doing now."""

    running: int  #: images in the running batch
    waiting: int  #: images that wait for a slot
    step_s: Mapping[str, float]  #: seconds of a denoising step by model, smoothed
    step_images: Mapping[str, float]  #: images that shared it, smoothed alike
    most_sharing: Mapping[str, int]  #: images that share one while every slot is taken; 0: all
    is_alive: bool  #: it takes jobs
