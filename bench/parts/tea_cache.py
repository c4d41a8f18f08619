"""TeaCache: leave out whole steps of a model whose input has hardly changed, as a baseline.

Liu et al. 2024, "Timestep Embedding Tells": the input of the first block, as the timestep modulates
it, is compared with that of the step before; a polynomial turns how much it changed into how much
the output will have; while what adds up stays below a threshold the cached output serves again.
First and last step are computed. Of transformers what all blocks add to their tokens is cached, as
there. A UNet has no such input: here it is its first feature map, normed, plus the first projection
of the timestep; cached is its prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from worker.diffusion.stock import Argument, Module, hook_forward

NAME = "tea_cache"
#: Of the polynomial.
DEGREE = 4


@dataclass(slots=True, kw_only=True)
class Changes:
    """Relative changes from one step to the next, seen while nothing is left out."""

    inputs: list[float] = field(default_factory=list)
    outputs: list[float] = field(default_factory=list)

    def fitted(self) -> np.poly1d:
        """Fit outputs to inputs, as the paper's authors do for each model."""
        return np.poly1d(np.polyfit(self.inputs, self.outputs, DEGREE))


def relative(now: Tensor, before: Tensor) -> float:
    """Say how far two tensors are from each other: the L1 norm of what changed, in that before."""
    return float((now - before).abs().mean() / before.abs().mean())


class TeaCache:
    """The cache of one model. One image at a time, with its rows of guidance."""

    def __init__(self, model: Module) -> None:
        """Hook a UNet, or the joint blocks of a transformer."""
        self.rescale = np.poly1d([1.0, 0.0])
        self.threshold = 0.0  #: 0: nothing is left out
        self.skipped = 0  #: steps of the last image
        self.seen = Changes()
        self._model = model
        self.begin(0)
        blocks: Sequence[Module] | None = getattr(model, "transformer_blocks", None)
        if blocks is None:
            hook_forward(model, NAME, self._run_unet)
        else:
            for number, block in enumerate(blocks):
                forward = self._run_first if number == 0 else self._run_later
                hook_forward(block, NAME, forward)
            hook_forward(model.norm_out, NAME, self._run_norm)

    def begin(self, steps: int) -> None:
        """Begin another image."""
        self._left, self._summed, self.skipped = steps, 0.0, 0
        self._input: Tensor | None = None
        self._output: Tensor | None = None
        self._tokens: Tensor | None = None
        self._skips = False

    def _decide(self, modulated: Tensor) -> None:
        """Say whether this step is left out."""
        self._left -= 1
        before, self._input = self._input, modulated
        self._skips = False
        if before is None or self._output is None:
            return
        change = relative(modulated, before)
        if self.threshold == 0:
            self.seen.inputs.append(change)
        self._summed += max(0.0, float(self.rescale(change)))
        self._skips = self._left > 0 and self._summed < self.threshold
        if self._skips:
            self.skipped += 1
        else:
            self._summed = 0.0

    def _keep(self, output: Tensor) -> None:
        if self.threshold == 0 and self._output is not None:
            self.seen.outputs.append(relative(output, self._output))
        self._output = output

    # a UNet

    def _run_unet(
        self, whole: Argument, module: Module, sample: Tensor, timestep: Tensor, **kwargs: Argument
    ) -> tuple[Tensor]:
        first = module.down_blocks[0].resnets[0]
        embedded = module.time_embedding(module.get_time_embed(sample, timestep))
        time = first.time_emb_proj(torch.nn.functional.silu(embedded))
        self._decide(first.norm1(module.conv_in(sample)) + time[:, :, None, None])
        if not self._skips:
            self._keep(whole(sample, timestep, **kwargs)[0])
        assert self._output is not None
        return (self._output,)

    # a transformer

    def _run_first(
        self, whole: Argument, module: Module, *, hidden_states: Tensor, **kwargs: Argument
    ) -> tuple[Tensor | None, Tensor]:
        self._tokens = hidden_states
        self._decide(module.norm1(hidden_states, emb=kwargs["temb"])[0])
        return self._run_later(whole, module, hidden_states=hidden_states, **kwargs)

    def _run_later(
        self, whole: Argument, module: Module, *, hidden_states: Tensor, **kwargs: Argument
    ) -> tuple[Tensor | None, Tensor]:
        if self._skips:
            return kwargs["encoder_hidden_states"], hidden_states
        made: tuple[Tensor | None, Tensor] = whole(hidden_states=hidden_states, **kwargs)
        return made

    def _run_norm(self, whole: Argument, module: Module, tokens: Tensor, temb: Tensor) -> Tensor:
        assert self._tokens is not None
        if not self._skips:
            self._keep(tokens - self._tokens)
        assert self._output is not None
        normed: Tensor = whole(self._tokens + self._output, temb)
        return normed
