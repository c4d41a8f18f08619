"""Stub T5 encoder that outputs zeros, so that stock code loads an SD3 folder without T5.

Stock code loads a folder without T5 only if it is told so; with T5 absent it reads 256 zero tokens.
The last norm of this encoder scales by zero: its tokens are those very zeros, whatever it reads.
"""

import string

import torch
from torch import nn
from transformers import T5Config, T5EncoderModel, T5TokenizerFast

_SPECIAL = ("<pad>", "</s>", "<unk>")


def silent_t5(channels: int) -> T5EncoderModel:
    """Build the encoder; each of its tokens is `channels` zeros."""
    torch.manual_seed(0)
    encoder = T5EncoderModel(
        T5Config(
            vocab_size=len(_vocabulary()),
            d_model=channels,
            d_kv=1,
            d_ff=1,
            num_layers=1,
            num_heads=1,
            dropout_rate=0.0,
        )
    )
    nn.init.zeros_(encoder.encoder.final_layer_norm.weight)
    return encoder.requires_grad_(False).eval()


def silent_tokenizer() -> T5TokenizerFast:
    """Build a tokenizer of letters, as no one listens."""
    return T5TokenizerFast(vocab=_vocabulary(), extra_ids=0)


def _vocabulary() -> list[tuple[str, float]]:
    pieces = (*_SPECIAL, "\u2581", *string.ascii_lowercase)
    return [(piece, 0.0 if piece in _SPECIAL else -1.0) for piece in pieces]
