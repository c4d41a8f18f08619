"""Record of how ControlNets steer an architecture: what they are told, where residuals join."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from worker.control.client.conditioning import Tell, TellLatents, tell_pixels
from worker.control.client.late_blocks import LateBlockResiduals
from worker.control.client.late_unet import LateResiduals
from worker.diffusion.stock import Module, Pipe

#: Whoever adds residuals to the features of a model.
Late: TypeAlias = LateResiduals | LateBlockResiduals


@dataclass(frozen=True, slots=True, kw_only=True)
class Steerability:
    """How ControlNets steer the models of one architecture."""

    tell: Callable[[Pipe], Tell]  #: prepares what tells a ControlNet of a picture and a prompt
    late: Callable[[Module], Late]  #: hooks a model, so that it waits for residuals


def _tell_pixels(pipe: Pipe) -> Tell:
    del pipe
    return tell_pixels


UNET = Steerability(tell=_tell_pixels, late=LateResiduals)
JOINT = Steerability(tell=TellLatents, late=LateBlockResiduals)
