"""What does the denoiser read of a caption?"""

import torch
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from zoo.architecture import IMAGE_SIDE, MAX_TOKENS

#: What SDXL is told of size and crop: original size, crop corner, target size.
TIME_IDS = (IMAGE_SIDE, IMAGE_SIDE, 0, 0, IMAGE_SIDE, IMAGE_SIDE)


class TextEncoders(nn.Module):
    """The two text encoders of an SDXL pipeline, read as the pipeline reads them."""

    def __init__(self, first: CLIPTextModel, second: CLIPTextModelWithProjection) -> None:
        super().__init__()
        #: Its penultimate layer fills the first columns of the context.
        self.first = first
        #: Its penultimate layer fills the rest; its projection is the pooled vector.
        self.second = second

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Encode captions.

        Shapes: ids [B, T] -> context [B, T, C], pooled [B, P].
        """
        first = self.first(ids, output_hidden_states=True)
        second = self.second(_padded_with_zero(ids, self._end), output_hidden_states=True)
        context = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1)
        return context, second.text_embeds

    @property
    def _end(self) -> int:
        end: int = self.first.config.eos_token_id
        return end


def _padded_with_zero(ids: Tensor, end: int) -> Tensor:
    """Replace the padding of the first tokenizer (end tokens) by that of the second (zeros)."""
    first_end = (ids == end).int().argmax(dim=1, keepdim=True)
    return ids.masked_fill(torch.arange(MAX_TOKENS) > first_end, 0)


def time_ids(batch: int) -> Tensor:
    """Give the size conditioning of a batch.

    Shapes: [B, 6].
    """
    return torch.tensor([TIME_IDS], dtype=torch.float32).expand(batch, -1)
