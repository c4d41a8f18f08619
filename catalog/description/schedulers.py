"""Refuse noise schedules that the engine cannot follow, and recognise those of few steps."""

from collections.abc import Mapping

from core.errors import ModelRefused

_PLAIN = "EulerDiscreteScheduler"

#: Schedulers that are refused -> why.
_REFUSED = {
    "EDMEulerScheduler": "its noise levels are EDM's, not those of 1000 trained steps",
    "EDMDPMSolverMultistepScheduler": "its noise levels are EDM's, not those of 1000 trained steps",
    "CosineDPMSolverMultistepScheduler": "it needs `torchsde`, whose noise depends on the machine",
    "DPMSolverSDEScheduler": "it needs `torchsde`, whose noise depends on the machine",
}

#: Schedulers that only models distilled for them come with -> how those are called.
_FEW_STEPS = {"LCMScheduler": "lcm", "TCDScheduler": "hyper"}
#: Steps that these skip over unless they say otherwise: they make no more of them.
_SKIPPED_OVER = 50


def check_scheduler(class_name: str) -> None:
    """Refuse a scheduler by its class.

    Raises:
        ModelRefused: it cannot be followed; it says what to write instead, where anything helps.
    """
    why = _REFUSED.get(class_name)
    if why is None:
        return
    if class_name.startswith("EDM"):
        cure = "no other scheduler fits such weights: add a model trained for 1000 steps"
    else:
        cure = (
            'write `"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": '
            f'"sde-dpmsolver++"` (or `{_PLAIN}`) into scheduler/scheduler_config.json'
        )
    raise ModelRefused(f"scheduler: {class_name} cannot be followed: {why}; {cure}")


def few_steps_of(config: Mapping[str, object]) -> str | None:
    """Tell by its schedule which kind of few-step model this is; None: by this it is none."""
    class_name = str(config.get("_class_name"))
    if class_name in _FEW_STEPS:
        return _FEW_STEPS[class_name]
    is_zero_snr = bool(config.get("rescale_betas_zero_snr"))
    is_plain = config.get("prediction_type", "epsilon") == "epsilon"
    is_euler = class_name.startswith("Euler")
    ends_early = is_euler and config.get("timestep_spacing") == "trailing"
    return "turbo" if ends_early and is_plain and not is_zero_snr else None


def most_steps_of(config: Mapping[str, object]) -> int | None:
    """Count the steps that a schedule has at most; None: as many as anybody asks for."""
    if str(config.get("_class_name")) not in _FEW_STEPS:
        return None
    stated = config.get("original_inference_steps")
    return stated if isinstance(stated, int) and stated > 0 else _SKIPPED_OVER
