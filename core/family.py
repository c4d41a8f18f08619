"""Families of models: what each takes, known before a model is loaded. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: Sampler names a request may use -> the diffusers class and its extra configuration.
Samplers = Mapping[str, tuple[str, Mapping[str, object]]]

SAMPLERS: Samplers = {
    "euler": ("EulerDiscreteScheduler", {}),
    "euler-ancestral": ("EulerAncestralDiscreteScheduler", {}),
    "ddim": ("DDIMScheduler", {"clip_sample": False, "set_alpha_to_one": False}),
    "dpm++2m": ("DPMSolverMultistepScheduler", {}),
    "dpm++2m-karras": ("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
    "dpm++sde": ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}),
    "unipc": ("UniPCMultistepScheduler", {}),
    "pndm": ("PNDMScheduler", {"skip_prk_steps": True}),
    "lcm": ("LCMScheduler", {}),
    "tcd": ("TCDScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
}

#: The same for models that predict a flow; they have other noise levels, so no others fit them.
FLOW_SAMPLERS: Samplers = {
    "euler": ("FlowMatchEulerDiscreteScheduler", {}),
    "heun": ("FlowMatchHeunDiscreteScheduler", {}),
}


class Spacing(StrEnum):
    """How noise levels are spaced, other than as a sampler spaces them by itself."""

    KARRAS = "karras"  #: more of them near the end
    EXPONENTIAL = "exponential"  #: evenly in their logarithm
    BETA = "beta"  #: more of them at both ends


#: Samplers whose noise levels a request may space, of models that predict noise; of flows: euler.
SPACED = frozenset(["euler", "heun", "dpm++2m", "dpm++sde", "unipc"])
#: Samplers that a request may give its own noise levels.
EXPLICIT = ("euler",)
#: Samplers that draw as much noise at each step as a request says.
STOCHASTIC = frozenset(["ddim", "tcd"])


@dataclass(frozen=True, slots=True, kw_only=True)
class T5:
    """The T5 encoder of a family, beside CLIP."""

    tokenizer: str  #: its folder
    field: str  #: that it reads in place of the prompt
    tokens: int  #: that stock pipelines have it read, without the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What api and scheduler know of a family."""

    samplers: Samplers = field(default_factory=lambda: SAMPLERS)  #: what a request may name
    can_edit: bool = False  #: whether it makes masked edits
    is_upscaler: bool = False  #: whether it enlarges pictures, and makes no other images
    is_flow: bool = False  #: whether it predicts a flow, whose noise levels end at 1
    #: Whether it is told the guidance scale instead of being run once more without the prompt.
    embeds_guidance: bool = False
    #: Folders of the tokenizers whose tokens a model's limit counts: those of CLIP.
    tokenizers: tuple[str, ...] = ("tokenizer", "tokenizer_2")
    t5: T5 | None = None  #: None: it has none
    #: Fields of `core.identity.words` that it reads, and `ip_adapter`; it refuses the others.
    words: frozenset[str] = frozenset()


#: By name, that of the file in `worker/families/` too; a family without a row is a plain `Family`.
FAMILIES: dict[str, Family] = {
    "sdxl": Family(
        can_edit=True,
        words=frozenset(
            [
                *("prompt_2", "negative_prompt_2", "prompt_syntax", "embeddings", "clip_skip"),
                "ip_adapter",
                *("original_size", "crop", "target_size"),
                *("negative_original_size", "negative_crop", "negative_target_size"),
            ]
        ),
    ),
    "sd": Family(
        can_edit=True,
        words=frozenset(["prompt_syntax", "embeddings", "clip_skip", "ip_adapter"]),
    ),
    "sd3": Family(
        samplers=FLOW_SAMPLERS,
        is_flow=True,
        can_edit=True,
        words=frozenset(
            ("prompt_2", "prompt_3", "negative_prompt_2", "negative_prompt_3", "clip_skip")
        ),
        t5=T5(tokenizer="tokenizer_3", field="prompt_3", tokens=255),
    ),
    "flux": Family(
        samplers={"euler": FLOW_SAMPLERS["euler"]},  # it shifts its schedule, as no other can
        is_flow=True,
        can_edit=True,
        embeds_guidance=True,
        tokenizers=("tokenizer",),
        t5=T5(tokenizer="tokenizer_2", field="prompt_2", tokens=511),
        words=frozenset(["prompt_2"]),
    ),
    "esrgan": Family(samplers={}, is_upscaler=True, tokenizers=()),
    "noop": Family(can_edit=True),  # it makes nothing of whatever it is given
    "paced": Family(),  # likewise, and takes its time
}
