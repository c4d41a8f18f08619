"""Read tokens by a CLIP text encoder: the hidden states that a model of diffusers is told."""

from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor

from worker.diffusion.stock import Module
from worker.text.learned import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipReader:
    """One CLIP text encoder, and which of its layers speaks."""

    encoder: Module
    #: Whether the last layer speaks, as in SD 1 and 2, through the last norm; else the one before.
    is_last: bool

    def read(
        self, tokens: Tensor, skip: int | None = None, vocabulary: Vocabulary | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Give the hidden states without the last `skip` layers, and what is pooled of all layers.

        As `encode_prompt` of diffusers: only encoders with a projection pool.
        Shapes: [1, T] -> [1, T, D], [1, P]
        """
        tokens = tokens.to(self.encoder.device)
        with vocabulary.read_by(self.encoder, tokens) if vocabulary else nullcontext(tokens) as ids:
            out = self.encoder(ids, output_hidden_states=True)
        return self._states(out.hidden_states, skip or 0), getattr(out, "text_embeds", None)

    def _states(self, hidden: tuple[Tensor, ...], skip: int) -> Tensor:
        if not self.is_last:
            return hidden[-(skip + 2)]
        # Until transformers 5 the norm lay a level deeper, where diffusers still looks for it.
        inner: Module = getattr(self.encoder, "text_model", None) or self.encoder
        states: Tensor = inner.final_layer_norm(hidden[-(skip + 1)])
        return states
