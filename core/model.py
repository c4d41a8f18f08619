"""Models: what each can make, and what it costs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from core.family import FAMILIES, Family, Samplers

#: Samplers that cannot make as many steps as the model allows: they skip over 50 trained ones.
SAMPLER_MAX_STEPS: dict[str, int] = {"lcm": 50, "tcd": 50}

_PLAIN = Family()


def offered(models: Mapping[str, "Model"]) -> Mapping[str, "Model"]:
    """Keep the models that requests get which name none: of known quality, or all if none is.

    Whoever has a picture enlarged says so: an upscaler is no such model.
    """
    makers = {name: each for name, each in models.items() if not each.is_upscaler}
    return {name: each for name, each in makers.items() if each.is_known} or makers


class Defaults(TypedDict):
    """Fields of a request that a model fills in."""

    steps: int
    guidance: float
    width: int  #: pixels
    height: int  #: pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One set of weights, what it can make, and what it costs: `atelier.json` in its folder."""

    name: str
    family: str  #: such as `sdxl`, `sd3` or `flux`: a name of `core.family`
    default_steps: int = 30
    max_steps: int = 100
    default_guidance: float = 5.0
    default_size: int = 64  #: pixels, width and height
    min_size: int = 64  #: pixels
    max_size: int = 128  #: pixels
    size_multiple: int = 16  #: pixels; VAE factor times the UNet's own
    max_prompt_tokens: int = 75  #: without the begin and end tokens
    size_gib: float = 0.1  #: resident in device memory
    load_s: float = 1.0  #: seconds to load, by device profile; a first guess until profiled
    step_s: float = 0.05  #: seconds of one step of one image, alone; a first guess until profiled
    quality: float | None = None  #: mean relative quality, a guess until profiled; None: unknown
    dtype: str | None = None  #: precision of this copy; None: that of the worker
    scale: int = 1  #: of an upscaler: pixels a side that it makes of each of a picture
    is_compiled: bool = False  #: run through torch.compile, where its family can

    @property
    def is_known(self) -> bool:
        """Whether anybody can say how good its images are."""
        return self.quality is not None

    @property
    def family_facts(self) -> Family:
        """What its family takes."""
        return FAMILIES.get(self.family, _PLAIN)

    @property
    def samplers(self) -> Samplers:
        """What a request may name as its sampler."""
        return self.family_facts.samplers

    @property
    def can_edit(self) -> bool:
        """Whether it makes masked edits."""
        return self.family_facts.can_edit

    @property
    def is_upscaler(self) -> bool:
        """Whether it enlarges pictures, and does nothing else."""
        return self.family_facts.is_upscaler

    @property
    def reads_negative_prompts(self) -> bool:
        """Whether what an image should not show makes a difference to it."""
        return not self.family_facts.embeds_guidance

    def makes(self, size: int) -> bool:
        """Tell whether its images may be so many pixels wide or high."""
        return self.min_size <= size <= self.max_size and size % self.size_multiple == 0

    def max_steps_with(self, scheduler: str | None) -> int:
        """Count the steps that it makes at most with a sampler; None is its own."""
        return min(self.max_steps, SAMPLER_MAX_STEPS.get(scheduler or "", self.max_steps))

    def steps_of(self, sigmas: Sequence[float]) -> int:
        """Count the steps that noise levels stand for: the last of a UNet's is where they end."""
        return len(sigmas) - (not self.family_facts.is_flow)

    def defaults(self, scheduler: str | None = None) -> Defaults:
        """Say what it makes where a client leaves that open, with a sampler; None is its own."""
        return {
            "steps": min(self.default_steps, self.max_steps_with(scheduler)),
            "guidance": self.default_guidance,
            "width": self.default_size,
            "height": self.default_size,
        }

    def is_guided(self, guidance: float) -> bool:
        """Tell whether a guidance scale has a negative prompt weighed against the prompt."""
        return guidance > 1 and self.reads_negative_prompts
