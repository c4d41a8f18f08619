"""Keep the latents of many images in one buffer, a row an image, with what their samplers keep."""

import math
from collections.abc import Sequence
from heapq import heappop, heappush

import torch
from torch import Tensor


class LatentPool:
    """A buffer for images of one shape, in single precision, that holds any model's numbers.

    A row is taken by `take`, and free again once nobody has it any more.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
        """Hold nothing yet. Shapes: `shape` is [C, h, w]."""
        self.dtype = dtype  #: of the model
        self.pixels = math.prod(shape[1:])  #: of an image's latents
        self.state = torch.zeros(0, 1, *shape, device=device)  #: [rows, 1 + kept, C, h, w]
        self.free: list[int] = []  #: rows, the first of them first

    def take(self, latents: Tensor, num_kept: int = 0, kept: Sequence[Tensor] = ()) -> "PoolRow":
        """Put an image into a row. `kept`: the first of what its sampler keeps, if there is any.

        Shapes: [1, C, h, w] each.
        """
        if not self.free or self.state.shape[1] <= num_kept:
            self._grow(num_kept)
        row = heappop(self.free)
        self.state[row].zero_()
        for at, tensor in enumerate((latents, *kept)):
            self.state[row, at].copy_(tensor[0])
        return PoolRow(self, row, 1 + num_kept)

    def _grow(self, num_kept: int) -> None:
        rows, width, *shape = self.state.shape
        more = rows if self.free else max(1, 2 * rows)
        grown = self.state.new_zeros(more, max(width, 1 + num_kept), *shape)
        grown[:rows, :width] = self.state
        for row in range(rows, more):
            heappush(self.free, row)
        self.state = grown


class PoolRow:
    """One image's place in a pool."""

    __slots__ = ("index", "num_tensors", "pool")

    def __init__(self, pool: LatentPool, index: int, num_tensors: int) -> None:
        self.pool = pool
        self.index = index
        self.num_tensors = num_tensors  #: latents, and what the sampler keeps

    def __del__(self) -> None:
        heappush(self.pool.free, self.index)

    @property
    def latents(self) -> Tensor:
        """Show the latents, which the next step changes. Shapes: [1, C, h, w]."""
        return self.tensors[0]

    @torch.inference_mode()
    def put(self, latents: Tensor) -> None:
        """Go on from other latents; what the sampler keeps stays. Shapes: [1, C, h, w]."""
        self.pool.state[self.index, 0].copy_(latents[0])

    @property
    def whole(self) -> Tensor:
        """Show latents and what is kept as they are held. Shapes: [1, tensors, C, h, w]."""
        return self.pool.state[self.index : self.index + 1, : self.num_tensors]

    @torch.inference_mode()
    def put_whole(self, tensors: Tensor) -> None:
        """Go on from other latents and what was kept with them. Shapes: as `whole`."""
        self.whole.copy_(tensors)

    @property
    def tensors(self) -> list[Tensor]:
        """Show the latents and what the sampler keeps. Shapes: [1, C, h, w] each."""
        state = self.pool.state[self.index : self.index + 1]
        return list(state.to(self.pool.dtype).unbind(1))
