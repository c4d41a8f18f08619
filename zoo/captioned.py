"""Training batches of a denoiser: latents and encoded captions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from rich.progress import track
from torch import Tensor

from zoo.latents import Pool
from zoo.text import Empty, Reader

_ENCODE_BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some scenes, in single precision."""

    #: Scaled latents, [B, 4, 16, 16].
    latents: Tensor
    #: What the caption's tokens say, [B, T, C].
    context: Tensor
    #: What the whole caption says, [B, P].
    pooled: Tensor | None
    #: What the empty caption says: context [T, C] and pooled [P].
    empty: Empty
    #: The noise that belongs to each latent, [B, 4, 16, 16]; None is any noise.
    noise: Tensor | None = None

    @classmethod
    def join(cls, batches: Sequence["Batch"]) -> "Batch":
        """Put batches of one text encoder behind each other."""
        pooled = [batch.pooled for batch in batches if batch.pooled is not None]
        noise = [batch.noise for batch in batches if batch.noise is not None]
        return cls(
            latents=torch.cat([batch.latents for batch in batches]),
            context=torch.cat([batch.context for batch in batches]),
            pooled=torch.cat(pooled) if pooled else None,
            empty=batches[0].empty,
            noise=torch.cat(noise) if noise else None,
        )

    def with_dropped(self, is_dropped: Tensor) -> "Batch":
        """Replace some captions by the empty one.

        Shapes: is_dropped [B].
        """
        context, pooled = self.empty
        kept = torch.where(is_dropped[:, None, None], context, self.context)
        if self.pooled is None or pooled is None:
            return replace(self, context=kept)
        return replace(
            self, context=kept, pooled=torch.where(is_dropped[:, None], pooled, self.pooled)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioned:
    """The scenes of one level, half precision, each caption encoded once."""

    #: Scaled latents, [N, 4, 16, 16].
    latents: Tensor
    #: Index of each scene's caption, [N].
    caption: Tensor
    #: Context of each different caption, [M, T, C].
    context: Tensor
    #: Pooled vector of each different caption, [M, P].
    pooled: Tensor | None
    #: Context [T, C] and pooled vector [P] of the empty caption.
    empty: Empty
    #: The noise that belongs to each latent, [N, 4, 16, 16]; None is any noise.
    noise: Tensor | None = None

    def pick(self, count: int, generator: torch.Generator) -> Batch:
        """Draw scenes with replacement."""
        at = torch.randint(0, len(self.latents), (count,), generator=generator)
        captions = self.caption[at]
        return Batch(
            latents=self.latents[at].float(),
            context=self.context[captions].float(),
            pooled=None if self.pooled is None else self.pooled[captions].float(),
            empty=self.empty,
            noise=None if self.noise is None else self.noise[at].float(),
        )


@torch.no_grad()
def encode_captions(pools: Mapping[int, Pool], reader: Reader) -> dict[int, Captioned]:
    """Encode the captions of all levels; scenes with one caption share its encoding."""
    return {level: _encode_pool(pool, reader) for level, pool in pools.items()}


def _encode_pool(pool: Pool, reader: Reader) -> Captioned:
    different, caption = torch.unique(pool.ids, dim=0, return_inverse=True)
    pieces = different.long().split(_ENCODE_BATCH)
    encoded = [reader(ids) for ids in track(pieces, description="captions", transient=True)]
    pooled = [vector.half() for _, vector in encoded if vector is not None]
    return Captioned(
        latents=pool.latents,
        caption=caption,
        context=torch.cat([context.half() for context, _ in encoded]),
        pooled=torch.cat(pooled) if pooled else None,
        empty=reader.empty(),
        noise=pool.noise,
    )
