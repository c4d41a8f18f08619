"""Generate images in batches with the engine's parts, from noise or reused latents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from core.errors import EngineError
from core.levels.approximation import EXACT, SKIPS, Approximation
from core.levels.level import Level, resumed_levels
from core.levels.schedule import scaled
from core.model import Model
from profiling.requests import request_of
from worker.diffusion.runner import AnyRunner, Pixels
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.snapshot import LATENTS, resume
from worker.pipeline.sample import Conditioning

#: Images that step together.
BATCH = 64

#: Called with the number of image steps that were just taken.
Tick = Callable[[int], None]


class MeasuredSample(Protocol):
    """What is needed of an image being made, beside what the engine needs."""

    latents: Tensor  #: [1, C, h, w]
    sampler: Sampler
    conditioning: Conditioning
    reached: Approximation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """What prompts left behind."""

    #: Latents before step K, for every K of `SKIPS`, [P, K, C, h, w].
    latents: Tensor
    #: Of their prompts, [P, D].
    embeddings: Tensor


class ImageGenerator:
    """Makes images of many prompts with one model at its default guidance and size."""

    def __init__(self, runner: AnyRunner, steps: int, tick: Tick) -> None:
        self.model: Model = runner.model
        self._runner = runner
        self._steps = steps
        self._tick = tick

    def make(
        self, prompts: Sequence[str], seeds: Sequence[int], approximation: Approximation = EXACT
    ) -> list[Pixels]:
        """Make an image of each prompt from noise.

        Raises: EngineError if the model cannot be run so.
        """
        pictures = []
        for samples in self._opened(prompts, seeds):
            for sample in samples if approximation != EXACT else ():
                self._runner.approximate(sample, approximation)
                if sample.reached != approximation:
                    raise EngineError(f"{self.model.name} cannot be run with {approximation}")
            pictures += [self._runner.decode(each) for each in self._run(samples, self._steps)]
        return pictures

    def resume(
        self, prompts: Sequence[str], level: Level, memory: Memory
    ) -> tuple[list[Pixels], list[float]]:
        """Make an image of each prompt from the latent that its nearest neighbour left at step K.

        Also says how similar each neighbour is.
        Source: Argus §2.1 and §4.5: the state is reconditioned and takes the other N - K steps.
        """
        k = level.approximation.skipped_steps
        skipped, place = scaled(k, self._steps), SKIPS.index(k)
        pictures, similarities = [], []
        for samples in self._opened(prompts, [0] * len(prompts)):
            queries = _embeddings(samples)
            index, similarity = nearest(queries, memory.embeddings)
            for sample, start in zip(samples, memory.latents[index, place], strict=True):
                noise = sample.latents
                left = {LATENTS: start[None].to(noise.dtype)}
                sample.latents = resume(sample.sampler, k, left, noise)
            done = self._run(samples, self._steps - skipped)
            pictures += [self._runner.decode(sample) for sample in done]
            similarities += similarity.tolist()
        return pictures, similarities

    def remember(self, prompts: Sequence[str], seeds: Sequence[int]) -> Memory:
        """Make images of prompts as far as the last K, and keep their latents at every K."""
        stops = [scaled(k, self._steps) for k in SKIPS if resumed_levels(self.model)]
        latents, embeddings = [], []
        for samples in self._opened(prompts, seeds):
            embeddings.append(_embeddings(samples))
            kept, taken = [], 0
            for stop in stops:
                self._run(samples, stop - taken)
                kept.append(torch.cat([sample.latents.cpu() for sample in samples]))
                taken = stop
            latents.append(torch.stack(kept, dim=1))
        return Memory(latents=torch.cat(latents), embeddings=torch.cat(embeddings))

    def embed(self, prompts: Sequence[str]) -> Tensor:
        """Embed prompts as they are compared when one goes on from another. Shapes: [P, D]."""
        opened = self._opened(prompts, [0] * len(prompts))
        return torch.cat([_embeddings(samples) for samples in opened])

    def _opened(
        self, prompts: Sequence[str], seeds: Sequence[int]
    ) -> Iterator[list[MeasuredSample]]:
        for start in range(0, len(prompts), BATCH):
            some = slice(start, start + BATCH)
            pairs = zip(prompts[some], seeds[some], strict=True)
            yield [
                self._runner.open(request_of(self.model, prompt, steps=self._steps), seed)
                for prompt, seed in pairs
            ]

    def _run(self, samples: list[MeasuredSample], steps: int) -> list[MeasuredSample]:
        for _ in range(steps):
            self._runner.advance(samples, self._runner.forward(samples))
            self._tick(len(samples))
        return samples


def _embeddings(samples: Sequence[MeasuredSample]) -> Tensor:
    """Embed prompts as the mean of their tokens in the model's text encoders. Shapes: [P, D]."""
    means = [sample.conditioning.text[-1].float().mean(0) for sample in samples]
    return normalize(torch.stack(means), dim=1).cpu()


def nearest(queries: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Find the most similar remembered prompt of each query, and how similar it is.

    Shapes: queries [Q, D], memory [P, D], rows of length 1 -> [Q], [Q]; cosine, at most 1.
    """
    similarity, index = (queries @ memory.T).max(dim=1)
    return index, similarity
