"""Record of how ControlNets steer an architecture: what they are told, where residuals join."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from worker.control.client.conditioning import (
    See,
    Tell,
    TellLatents,
    see_pixels,
    seeing_latents,
    tell_as_seen,
)
from worker.control.client.late_blocks import LateBlockResiduals
from worker.control.client.late_flux import LateFluxResiduals
from worker.control.client.late_unet import LateResiduals
from worker.diffusion.stock import Module, Pipe

#: Whoever adds residuals to the features of a model.
Late: TypeAlias = LateResiduals | LateBlockResiduals | LateFluxResiduals


def _see_pixels(pipe: Pipe) -> See:
    del pipe
    return see_pixels


def _tell_as_seen(pipe: Pipe) -> Tell:
    del pipe
    return tell_as_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Steerability:
    """How ControlNets steer the models of one architecture."""

    late: Callable[[Module], Late]  #: hooks a model, so that it waits for residuals
    see: Callable[[Pipe], See] = _see_pixels  #: prepares what looks at pictures
    tell: Callable[[Pipe], Tell] = _tell_as_seen  #: prepares what tells of these and a prompt
    fuses: bool = False  #: whether a Union ControlNet is told of all its pictures at once
    has_encoder: bool = False  #: to which T2I-Adapters add


UNET = Steerability(late=LateResiduals, fuses=True, has_encoder=True)
JOINT = Steerability(late=LateBlockResiduals, tell=TellLatents)
FLUX = Steerability(late=LateFluxResiduals, see=seeing_latents)
