"""What the service can make images with: models, their levels, their limits. Pure."""

from dataclasses import dataclass

#: Sampler names a request may use -> the diffusers class and its extra configuration.
SAMPLERS: dict[str, tuple[str, dict[str, object]]] = {
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

#: Samplers that cannot make as many steps as the model allows: LCM skips over 50 trained ones.
SAMPLER_MAX_STEPS: dict[str, int] = {"lcm": 50}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One set of weights, what it can make, and what it costs: `atelier.json` in its folder."""

    name: str
    family: str  #: `sdxl` or `sd`: a name of `worker.families`
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
    quality: float = 1.0  #: mean relative quality; a first guess until profiled

    @property
    def levels(self) -> tuple["Level", ...]:
        return (Level(model=self.name),)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Level:
    """A model and a number of skipped steps K: Argus' approximation level (§2.1)."""

    model: str
    skipped_steps: int = 0  #: K of 50; 0 runs every step

    @property
    def name(self) -> str:
        return f"{self.model}@{self.skipped_steps}"
