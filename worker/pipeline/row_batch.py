"""Step all images of a batch at once: the model's input, guidance, and each kind of sampler."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from worker.diffusion.device import to_device
from worker.diffusion.places import Places
from worker.diffusion.samplers.batch import SamplerBatch
from worker.diffusion.samplers.stepper import Stepper, times
from worker.pipeline.sample import UNetSample


class RowBatch:
    """Images that step together, while nobody joins or leaves. They have one pool."""

    def __init__(self, samples: Sequence[UNetSample]) -> None:
        """Find out whose rows are whose."""
        self.samples = tuple(samples)
        ends = list(accumulate(sample.rows for sample in samples))
        kinds: dict[Stepper | None, list[int]] = {}
        for at, sample in enumerate(samples):
            kinds.setdefault(sample.sampler.stepper, []).append(at)
        self._kinds = [
            _Kind(stepper, [samples[at] for at in places], [ends[at] for at in places])
            for stepper, places in kinds.items()
        ]
        order = [at for places in kinds.values() for at in places]
        place = {at: number for number, at in enumerate(order)}
        owners = [place[at] for at, each in enumerate(samples) for _ in range(each.rows)]
        is_in_order = owners == list(range(len(samples)))
        self._owners = None if is_in_order else Places(owners, samples[0].row.pool.state.device)
        self._recording = [
            (end - 1, each) for end, each in zip(ends, samples, strict=True) if each.is_recording
        ]

    def inputs(self) -> Tensor:
        """Give what the model sees at this step. Shapes: [rows, C, h, w]."""
        first, *others = [kind.inputs() for kind in self._kinds]
        inputs = torch.cat([first, *others]) if others else first
        if self._owners is not None:
            inputs = self._owners.of(inputs)
        for row, sample in self._recording:
            if (template := sample.recorded()) is not None:
                inputs[row] = template[0]
        return inputs

    def step(self, predictions: Tensor) -> None:
        """Take one step by the predictions of all rows; nothing has changed if that fails.

        Shapes: [rows, C, h, w].
        """
        states = [kind.step(predictions) for kind in self._kinds]
        for kind, state in zip(self._kinds, states, strict=True):
            kind.commit(state)


class _Kind:
    """The images of a batch that have one kind of sampler."""

    def __init__(
        self, stepper: Stepper | None, samples: Sequence[UNetSample], ends: Sequence[int]
    ) -> None:
        """Prepare; `ends`: of each image's rows of the model."""
        self._pool = samples[0].row.pool
        device = self._pool.state.device
        self._rows = Places([sample.row.index for sample in samples], device)
        self._samplers = SamplerBatch(stepper, [sample.sampler for sample in samples], device)
        self._edits = [(at, each) for at, each in enumerate(samples) if each.canvas is not None]
        begins = [end - sample.rows for end, sample in zip(ends, samples, strict=True)]
        self._begins = Places(begins, device)
        self._prompted: Places | None = None  #: rows that are told the prompt, where some are not
        scales = [sample.guidance for sample in samples]
        if any(scale is not None for scale in scales):
            told = [
                begin + (scale is not None) for begin, scale in zip(begins, scales, strict=True)
            ]
            numbers = torch.tensor([scale or 0.0 for scale in scales], dtype=torch.float32)
            self._prompted = Places(told, device)
            self._guidance = to_device(numbers[:, None, None, None], device)
            shares = [each.rescale if each.guidance is not None else 0.0 for each in samples]
            self._rescaled = [at for at, share in enumerate(shares) if share]
            self._shares = to_device(torch.tensor(shares)[self._rescaled, None, None, None], device)

    def inputs(self) -> Tensor:
        """Give the scaled latents. Shapes: [b, C, h, w]."""
        latents = self._rows.of(self._pool.state[:, 0])
        return self._samplers.scaled(latents.to(self._pool.dtype))

    def step(self, predictions: Tensor) -> Tensor:
        """Give the next state. Shapes: [rows, C, h, w] -> [b, 1 + kept, C, h, w]."""
        state = self._rows.of(self._pool.state)
        latents, *kept = self._samplers.step(state, self._guided(predictions))
        latents = latents.to(self._pool.dtype)
        for at, sample in self._edits:
            latents[at] = sample.blend(latents[at : at + 1])[0]
        if not kept:
            return latents.float()[:, None]
        return torch.stack([each.float() for each in (latents, *kept)], dim=1)

    def commit(self, state: Tensor) -> None:
        """Go over to the next state, which may keep fewer tensors than the pool has room for."""
        self._rows.put(self._pool.state[:, : state.shape[1]], state)
        self._samplers.advance()

    def _guided(self, predictions: Tensor) -> Tensor:
        negative = self._begins.of(predictions)
        if self._prompted is None:
            return negative
        positive = self._prompted.of(predictions)
        guided = negative + times(positive - negative, self._guidance)
        if self._rescaled:
            rows = self._rescaled
            guided[rows] = rescaled(guided[rows], positive[rows], self._shares)
        return guided


def rescaled(guided: Tensor, positive: Tensor, shares: Tensor) -> Tensor:
    """Take back a share of the contrast that guidance adds to each row, as stock's pipelines do.

    Source: Lin et al. 2023, section 3.4; `rescale_noise_cfg` of diffusers.
    Shapes: [b, C, h, w] each, shares [b, 1, 1, 1].
    """
    of_prompt, of_guided = (x.std(dim=(1, 2, 3), keepdim=True) for x in (positive, guided))
    flat = guided * (of_prompt / of_guided)
    return times(flat, shares) + times(guided, 1 - shares)
