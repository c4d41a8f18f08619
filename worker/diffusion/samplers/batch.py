"""Step the samplers of many images at once, a row each, which have one kind of stepper."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from worker.diffusion.device import to_device
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.samplers.stepper import Coefficients, Stepper, over

#: Steps whose coefficients are copied to the device in one go.
AHEAD = 16


class SamplerBatch:
    """Samplers that stand at steps of their own, and take the next one together."""

    def __init__(
        self, stepper: Stepper | None, samplers: Sequence[Sampler], device: torch.device
    ) -> None:
        """Read nothing yet. Without a stepper each takes its steps alone, by diffusers."""
        self.samplers = samplers
        self._stepper = stepper
        self._device = device
        self._begin: Sequence[int] = ()  #: positions at which the coefficients at hand begin
        self._ahead = torch.empty(0)  #: [steps, n, b, 1, 1, 1]
        self._is_scaled = False  #: whether any input is, in these steps
        self._at: Sequence[int] = ()  #: positions of the last step
        self._now: Coefficients = ()  #: of that step

    def scaled(self, latents: Tensor) -> Tensor:
        """Scale latents as the model expects them. Shapes: [b, C, h, w]."""
        if self._stepper is None:
            each = zip(self.samplers, torch.split(latents, 1), strict=True)
            return torch.cat([sampler.scale(own) for sampler, own in each])
        scale = self._coefficients()[0]
        return over(latents, scale) if self._is_scaled else latents

    def step(self, state: Tensor, predictions: Tensor) -> Sequence[Tensor]:
        """Give the next latents, and what is kept beside them; the samplers stay where they are.

        Shapes: state [b, 1 + kept, C, h, w], predictions [b, C, h, w] -> [b, C, h, w] each.
        """
        if self._stepper is None:
            before = torch.split(state[:, 0].to(predictions.dtype, copy=True), 1)
            each = zip(self.samplers, torch.split(predictions, 1), before, strict=True)
            return [torch.cat([sampler.step_alone(made, own) for sampler, made, own in each])]
        state = state[:, : 1 + self._stepper.num_kept]
        noise = self._noise(predictions) if self._stepper.is_stochastic else predictions
        return self._stepper.step(self._coefficients()[1:], state, predictions, noise)

    def advance(self) -> None:
        """Stand at the next step."""
        for sampler in self.samplers:
            sampler.advance()

    def _coefficients(self) -> Coefficients:
        at = [sampler.position for sampler in self.samplers]
        if at == self._at:
            return self._now
        step = at[0] - self._begin[0] if self._begin else -1
        if not 0 <= step < len(self._ahead) or at != [begin + step for begin in self._begin]:
            self._look_ahead(at)
            step = 0
        self._at, self._now = at, self._ahead[step].unbind()
        return self._now

    def _look_ahead(self, at: Sequence[int]) -> None:
        """Copy the coefficients of the next steps to the device."""
        tables = [sampler.table[here:] for here, sampler in zip(at, self.samplers, strict=True)]
        steps = min(AHEAD, *map(len, tables))
        ahead = np.stack([table[:steps] for table in tables], axis=-1)
        self._is_scaled = bool((ahead[:, 0] != 1.0).any())
        self._ahead = to_device(torch.from_numpy(ahead)[..., None, None, None], self._device)
        self._begin = at

    def _noise(self, like: Tensor) -> Tensor:
        """Draw each image's own noise, or none. Shapes: [b, C, h, w]."""
        drawn = [sampler.noise(like[:1]) for sampler in self.samplers]
        if all(each is None for each in drawn):
            return like
        nothing = torch.zeros(like[:1].shape)
        host = torch.cat([nothing if each is None else each for each in drawn])
        return to_device(host, self._device)
