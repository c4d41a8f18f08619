"""Text encoders as a denoiser reads them, in SDXL and SD 1.x layout."""

from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from zoo.architecture import IMAGE_SIDE, MAX_TOKENS

#: What SDXL is told of size and crop: original size, crop corner, target size.
TIME_IDS = (IMAGE_SIDE, IMAGE_SIDE, 0, 0, IMAGE_SIDE, IMAGE_SIDE)

#: Context [T, C] and pooled vector [P] of the empty caption; None where a layout has no such.
Empty = tuple[Tensor, Tensor | None]


class Reader(Protocol):
    """Text encoders, read as the pipeline of their layout reads them."""

    def __call__(self, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Encode captions.

        Shapes: ids [B, T] -> context [B, T, C], pooled [B, P].
        """

    def empty(self) -> Empty:
        """Give what the pipeline feeds for an empty negative prompt."""


class SdxlReader(nn.Module):
    """The two text encoders of an SDXL pipeline."""

    def __init__(self, first: CLIPTextModel, second: CLIPTextModelWithProjection) -> None:
        super().__init__()
        #: Its penultimate layer fills the first columns of the context.
        self.first = first
        #: Its penultimate layer fills the rest; its projection is the pooled vector.
        self.second = second

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Encode captions."""
        first = self.first(ids, output_hidden_states=True)
        end: int = self.first.config.eos_token_id
        second = self.second(padded_with_zero(ids, end), output_hidden_states=True)
        context = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1)
        return context, second.text_embeds

    def empty(self) -> Empty:
        """Give zeros: `force_zeros_for_empty_prompt`."""
        width = self.first.config.hidden_size + self.second.config.hidden_size
        return torch.zeros(MAX_TOKENS, width), torch.zeros(self.second.config.projection_dim)


class SdReader(nn.Module):
    """The text encoder of a Stable Diffusion 1.x pipeline."""

    def __init__(self, only: CLIPTextModel) -> None:
        super().__init__()
        #: Its last layer, normalised, is the context.
        self.only = only

    def forward(self, ids: Tensor) -> tuple[Tensor, None]:
        """Encode captions."""
        context: Tensor = self.only(ids).last_hidden_state
        return context, None

    @torch.no_grad()
    def empty(self) -> Empty:
        """Give the encoding of an empty caption."""
        config = self.only.config
        ids = torch.full((1, MAX_TOKENS), config.eos_token_id)
        ids[0, 0] = config.bos_token_id
        context, _ = self(ids)
        return context[0], None


def end_of(ids: Tensor, end: int) -> Tensor:
    """Find where captions end.

    Shapes: [B, T] -> [B].
    """
    return (ids == end).int().argmax(dim=1)


def padded_with_zero(ids: Tensor, end: int) -> Tensor:
    """Replace the padding of the first tokenizer (end tokens) by that of the second (zeros).

    Shapes: [B, T] -> the same.
    """
    return ids.masked_fill(torch.arange(MAX_TOKENS) > end_of(ids, end)[:, None], 0)


def time_ids(batch: int) -> Tensor:
    """Give the size conditioning of a batch.

    Shapes: [B, 6].
    """
    return torch.tensor([TIME_IDS], dtype=torch.float32).expand(batch, -1)
