"""Families of models: what each takes, known before a model is loaded. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    "heun": ("HeunDiscreteScheduler", {}),
}

#: The same for models that predict a flow; they have other noise levels, so no others fit them.
FLOW_SAMPLERS: Samplers = {
    "euler": ("FlowMatchEulerDiscreteScheduler", {}),
    "heun": ("FlowMatchHeunDiscreteScheduler", {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What api and scheduler know of a family."""

    samplers: Samplers = field(default_factory=lambda: SAMPLERS)  #: what a request may name
    can_edit: bool = False  #: whether it makes masked edits
    #: Whether it is told the guidance scale instead of being run once more without the prompt.
    embeds_guidance: bool = False
    #: Folders of the tokenizers whose tokens a model's limit counts.
    tokenizers: tuple[str, ...] = ("tokenizer", "tokenizer_2")


#: By name, that of the file in `worker/families/` too; a family without a row is a plain `Family`.
FAMILIES: dict[str, Family] = {
    "sdxl": Family(can_edit=True),
    "sd": Family(can_edit=True),
    "sd3": Family(samplers=FLOW_SAMPLERS, can_edit=True),
    "flux": Family(
        samplers={"euler": FLOW_SAMPLERS["euler"]},  # it shifts its schedule, as no other can
        can_edit=True,
        embeds_guidance=True,
    ),
    "noop": Family(can_edit=True),  # it makes nothing of whatever it is given
}
