"""Deepen or prune a trained denoiser, or reset its text conditioning.

Each new layer starts as the identity (Net2DeeperNet: Chen et al. 2016, section 2.3).
"""

from collections.abc import Iterator

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention import BasicTransformerBlock
from torch import nn


def _pairs(small: UNet2DConditionModel, deep: UNet2DConditionModel) -> Iterator[tuple[str, str]]:
    """Name what moves where, by prefix: one layer a block in the old model, two in the new one."""
    for name in (
        "conv_in",
        "time_embedding",
        "add_embedding",
        "mid_block",
        "conv_norm_out",
        "conv_out",
    ):
        yield name, name
    for block in range(len(small.down_blocks)):
        for part in ("resnets", "attentions"):
            yield f"down_blocks.{block}.{part}.0", f"down_blocks.{block}.{part}.0"
            # The skip connections of an old block go to its first and last new layer.
            yield f"up_blocks.{block}.{part}.0", f"up_blocks.{block}.{part}.0"
            yield f"up_blocks.{block}.{part}.1", f"up_blocks.{block}.{part}.2"
        yield f"down_blocks.{block}.downsamplers", f"down_blocks.{block}.downsamplers"
        yield f"up_blocks.{block}.upsamplers", f"up_blocks.{block}.upsamplers"


def _silence(layer: nn.Module) -> None:
    for weight in layer.parameters():
        nn.init.zeros_(weight)


@torch.no_grad()
def _make_identity(deep: UNet2DConditionModel) -> None:
    """Make every added layer pass its input on; an added resnet ignores its skip connection."""
    for block in (*deep.down_blocks, *deep.up_blocks):
        resnet = block.resnets[1]
        _silence(resnet.conv2)
        if resnet.conv_shortcut is not None:
            _silence(resnet.conv_shortcut)
            channels = torch.arange(resnet.conv_shortcut.out_channels)
            resnet.conv_shortcut.weight[channels, channels] = 1.0
        for at, attention in enumerate(getattr(block, "attentions", [])):
            if at == 1:
                _silence(attention.proj_out)
            for layer in attention.transformer_blocks[1:]:
                for last in (layer.attn1.to_out[0], layer.attn2.to_out[0], layer.ff.net[2]):
                    _silence(last)


@torch.no_grad()
def prune(deep: UNet2DConditionModel, small: UNet2DConditionModel) -> None:
    """Give a model of one layer a block what one of two layers has in the same places.

    It draws worse at first than the deep one; training goes on from there.
    """
    source = deep.state_dict()
    places = {
        old + name.removeprefix(new): weight
        for old, new in _pairs(small, deep)
        for name, weight in source.items()
        if name.startswith(f"{new}.")
    }
    small.load_state_dict({name: places[name] for name in small.state_dict()})


def deepen(small: UNet2DConditionModel, deep: UNet2DConditionModel) -> None:
    """Give a model of two layers a block the function of one with a layer a block."""
    source, target = small.state_dict(), deep.state_dict()
    moved = {
        new + name.removeprefix(old): weight
        for old, new in _pairs(small, deep)
        for name, weight in source.items()
        if name.startswith(f"{old}.")
    }
    if len(moved) != len(source):
        raise ValueError(f"{len(source) - len(moved)} weights of the old model have no place")
    deep.load_state_dict(target | moved)
    _make_identity(deep)


@torch.no_grad()
def unlearn_text(unet: UNet2DConditionModel) -> None:
    """Keep how a denoiser draws, and forget what it was told: for text encoders that are new."""
    for block in unet.modules():
        if isinstance(block, BasicTransformerBlock):
            for layer in (block.norm2, block.attn2.to_q, block.attn2.to_k, block.attn2.to_v):
                layer.reset_parameters()
            _silence(block.attn2.to_out[0])
    if unet.config.addition_embed_type == "text_time":
        sizes = 6 * unet.config.addition_time_embed_dim
        nn.init.zeros_(unet.add_embedding.linear_1.weight[:, :-sizes])
