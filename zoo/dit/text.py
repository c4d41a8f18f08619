"""Text conditioning of the transformer: two frozen text encoders."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from zoo.architecture import MAX_TOKENS
from zoo.text import padded_with_zero

#: Pooled channels of the first encoder, which learnt to read without a projection.
_FIRST_POOLED = 32


class Captions(nn.Module):
    """Two frozen text encoders, read as the stock pipeline reads them."""

    def __init__(
        self, first: CLIPTextModelWithProjection, second: CLIPTextModelWithProjection
    ) -> None:
        super().__init__()
        #: Its penultimate layer fills the first channels of the context, its pooled vector too.
        self.first = first
        #: Its penultimate layer and its pooled vector fill the rest.
        self.second = second
        self.requires_grad_(False).eval()

    @property
    def context(self) -> int:
        """Channels of a token."""
        width: int = self.first.config.hidden_size + self.second.config.hidden_size
        return width

    @property
    def pooled(self) -> int:
        """Channels of the pooled vector."""
        width: int = self.first.config.projection_dim + self.second.config.projection_dim
        return width

    @torch.no_grad()
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Encode captions; one zero token at the end stands for T5's, which is silent.

        Shapes: ids [B, T] -> context [B, T + 1, C], pooled [B, P].
        """
        end: int = self.first.config.eos_token_id
        first = self.first(ids, output_hidden_states=True)
        second = self.second(padded_with_zero(ids, end), output_hidden_states=True)
        context = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1)
        pooled = torch.cat([first.text_embeds, second.text_embeds], dim=-1)
        return functional.pad(context, (0, 0, 0, 1)), pooled

    def nothing(self) -> Tensor:
        """Give the ids of the empty caption. Shapes: [T]."""
        config = self.first.config
        return torch.tensor([config.bos_token_id] + [config.eos_token_id] * (MAX_TOKENS - 1))


def read_captions(folder: Path) -> Captions:
    """Read the text encoders of a folder in SDXL's layout or SD3's, single precision."""
    return Captions(
        _read_first(folder / "text_encoder"),
        CLIPTextModelWithProjection.from_pretrained(folder / "text_encoder_2", dtype=torch.float32),
    )


def _read_first(folder: Path) -> CLIPTextModelWithProjection:
    plain = CLIPTextModel.from_pretrained(folder, dtype=torch.float32)
    if plain.config.architectures == [CLIPTextModelWithProjection.__name__]:
        return CLIPTextModelWithProjection.from_pretrained(folder, dtype=torch.float32)
    return _with_projection(plain)


def _with_projection(plain: CLIPTextModel) -> CLIPTextModelWithProjection:
    """Give an encoder the pooled output that SD3 asks for: a fixed rotation of its end token."""
    plain.config.projection_dim = _FIRST_POOLED
    projecting = CLIPTextModelWithProjection(plain.config)
    projecting.text_model.load_state_dict(plain.state_dict())
    generator = torch.Generator().manual_seed(0)
    nn.init.orthogonal_(projecting.text_projection.weight, generator=generator)
    return projecting
