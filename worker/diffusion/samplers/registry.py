"""Find what steps the rows of a diffusers scheduler; the others step one by one, by diffusers."""

from collections.abc import Callable
from functools import partial

from worker.diffusion.samplers.ddim import Ddim, Lcm, Tcd
from worker.diffusion.samplers.dpm import dpm
from worker.diffusion.samplers.euler import Euler, EulerAncestral
from worker.diffusion.samplers.flow import FlowEuler
from worker.diffusion.samplers.heun import FlowHeun, Heun
from worker.diffusion.samplers.pndm import Pndm
from worker.diffusion.samplers.stepper import Stepper, is_velocity
from worker.diffusion.samplers.unipc import unipc
from worker.diffusion.stock import Scheduler


def stepper_of(scheduler: Scheduler) -> Stepper | None:
    """Find what steps many images of such schedulers; None: nothing does.

    Not what cuts its predictions to a range of their own, which is no arithmetic by rows, what
    draws noise on its way along a flow, begins by Runge-Kutta steps, is of another order than the
    second, or of a class that no request can name.
    """
    config = scheduler.config
    if config.get("thresholding", False) or config.get("clip_sample", False):
        return None
    if config.get("stochastic_sampling", False) or not config.get("skip_prk_steps", True):
        return None
    find = FINDERS.get(type(scheduler).__name__)
    return find(scheduler) if find is not None else None


def _by_prediction(make: Callable[[bool], Stepper], scheduler: Scheduler) -> Stepper | None:
    velocity = is_velocity(scheduler)
    return make(velocity) if velocity is not None else None


FINDERS: dict[str, Callable[[Scheduler], Stepper | None]] = {
    "EulerDiscreteScheduler": partial(_by_prediction, Euler),
    "EulerAncestralDiscreteScheduler": partial(_by_prediction, EulerAncestral),
    "HeunDiscreteScheduler": partial(_by_prediction, Heun),
    "DDIMScheduler": partial(_by_prediction, Ddim),
    "LCMScheduler": partial(_by_prediction, Lcm),
    "TCDScheduler": partial(_by_prediction, Tcd),
    "PNDMScheduler": partial(_by_prediction, Pndm),
    "DPMSolverMultistepScheduler": dpm,
    "UniPCMultistepScheduler": unipc,
    "FlowMatchEulerDiscreteScheduler": lambda scheduler: FlowEuler(),
    "FlowMatchHeunDiscreteScheduler": lambda scheduler: FlowHeun(),
}
