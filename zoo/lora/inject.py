"""Inject LoRA layers into a pipeline, and list the weights they add."""

from collections.abc import Iterator

import torch
from diffusers import StableDiffusionXLPipeline, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from peft import LoraConfig
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import PreTrainedModel

from zoo.lora.styles import Style

#: Parts of a pipeline that a LoRA may adapt.
PARTS = ("unet", "text_encoder", "text_encoder_2")

_ADAPTER = "style"
_ATTENTION = (".to_q", ".to_k", ".to_v", ".to_out.0")
_REST_OF_TRANSFORMERS = ("proj_in", "proj_out", ".ff.net.0.proj", ".ff.net.2")
_CONVOLUTIONS = (".conv1", ".conv2", "conv_in", "conv_out")
_TEXT_ATTENTION = (".q_proj", ".k_proj", ".v_proj", ".out_proj")


def inject(pipeline: StableDiffusionXLPipeline, style: Style, seed: int) -> dict[str, nn.Parameter]:
    """Add the LoRA of a style, which changes nothing yet; freeze the rest.

    Returns its weights, name as in a peft file -> parameter.
    """
    torch.manual_seed(seed)
    for part in PARTS:
        network = getattr(pipeline, part)
        network.requires_grad_(False)
        targets = _targets(network, part, style)
        if targets:
            _attend_eagerly(network)
            config = LoraConfig(r=style.rank, lora_alpha=style.alpha, target_modules=targets)
            network.add_adapter(config, adapter_name=_ADAPTER)
    return weights(pipeline, _ADAPTER)


def _attend_eagerly(network: UNet2DConditionModel | PreTrainedModel) -> None:
    """Avoid the fused attention, whose backward pass on a CPU costs a third of a step."""
    if isinstance(network, UNet2DConditionModel):
        network.set_attn_processor(AttnProcessor())
    else:
        network.set_attn_implementation("eager")


def _targets(network: UNet2DConditionModel | PreTrainedModel, part: str, style: Style) -> list[str]:
    names = [name for name, _ in network.named_modules()]
    if part == "unet":
        suffixes = _ATTENTION + (_CONVOLUTIONS if style.has_convolutions else _REST_OF_TRANSFORMERS)
        return [name for name in names if name.endswith(suffixes)]
    if not style.has_text:
        return []
    # The context is read before the last layer, which would learn little or nothing.
    last = f"layers.{network.config.num_hidden_layers - 1}."
    return [name for name in names if name.endswith(_TEXT_ATTENTION) and last not in name]


def weights(pipeline: StableDiffusionXLPipeline, adapter: str) -> dict[str, nn.Parameter]:
    """Give the weights of an adapter in all parts, name as in a peft file -> parameter."""
    found: dict[str, nn.Parameter] = {}
    for name, layer in _layers(pipeline, adapter):
        found[f"{name}.lora_A.weight"] = next(layer.lora_A[adapter].parameters())
        found[f"{name}.lora_B.weight"] = next(layer.lora_B[adapter].parameters())
    return found


def scales(pipeline: StableDiffusionXLPipeline, adapter: str) -> set[float]:
    """Give the factors by which the layers of an adapter count."""
    return {layer.scaling[adapter] for _, layer in _layers(pipeline, adapter)}


def _layers(pipeline: StableDiffusionXLPipeline, adapter: str) -> Iterator[tuple[str, LoraLayer]]:
    for part in PARTS:
        for name, module in getattr(pipeline, part).named_modules():
            if isinstance(module, LoraLayer) and adapter in module.lora_A:
                yield f"{part}.{_with_text_model(part, name)}", module


def _with_text_model(part: str, name: str) -> str:
    """Name a layer as files do; transformers 5 has no `text_model` in the first text encoder."""
    is_short = part != "unet" and not name.startswith("text_model.")
    return f"text_model.{name}" if is_short else name
