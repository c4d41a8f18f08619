"""Find out how much memory a model needs on a device, before it is loaded: nothing is read.

Weights in the precision they run in, islands of float32 included; and of one image, of the usual
size and of the largest, a guided step, the residuals of ControlNets, and the decoding of another
beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from catalog.lora.names import TEXT_ENCODERS
from core.boards.need import Need
from core.model import Model
from worker.diffusion.device import parse_dtype
from worker.diffusion.loading.hollow import hollow_parts
from worker.diffusion.stock import Module
from worker.trials.live_memory import peak_bytes

GIB = 2**30
#: Kernels take scratch beside what torch sees: on a CPU a decoder took 1.35 times that, a UNet 1.6.
SCRATCH = 1.6
#: Blocks of a transformer that ControlNets add to, at most.
STEERED_BLOCKS = 12

Call = Callable[[], object]


def need_of(folder: Path, model: Model, class_name: str, dtype: str) -> Need:
    """Say what a model of a stock pipeline needs.

    Raises: BadWeights; whatever its configuration makes the libraries raise.
    """
    precision = parse_dtype(model.dtype or dtype)
    parts = hollow_parts(folder, class_name, precision)
    encoders = [parts[name] for name in TEXT_ENCODERS if name in parts]
    sizes = (model.default_size, model.max_size)
    usual_step, most_step = (_step_gib(parts, model, size, precision) for size in sizes)
    usual, most = (_decode_gib(parts["vae"], size, precision) for size in sizes)
    return Need(
        weights_gib=sum(map(_weight, parts.values())) / GIB,
        work_gib=usual_step + usual,
        step_gib=usual_step,
        most_gib=max(usual_step + usual, most_step + most),
        encoders_gib=sum(map(_weight, encoders)) / GIB,
        layer_gib=max(map(_largest_layer, encoders), default=0) / GIB,
    )


def _weight(part: Module) -> int:
    return _bytes([*part.parameters(), *part.buffers()])


def _largest_layer(encoder: Module) -> int:
    layers = encoder.modules()
    return max(
        _bytes([*each.parameters(recurse=False), *each.buffers(recurse=False)]) for each in layers
    )


def _step_gib(
    parts: Mapping[str, Module], model: Model, size: int, precision: torch.dtype
) -> float:
    rows = 1 if model.family_facts.embeds_guidance else 2
    return SCRATCH * _step_bytes(parts, rows, _side(parts["vae"], size), precision) / GIB


def _decode_gib(vae: Module, size: int, precision: torch.dtype) -> float:
    if precision is torch.float16 and getattr(vae.config, "force_upcast", False):
        vae = vae.to(torch.float32)
    side, dtype = _side(vae, size), next(vae.parameters()).dtype
    latents = torch.empty((1, vae.config.latent_channels, side, side), dtype=dtype, device="meta")
    return SCRATCH * peak_bytes(lambda: vae.decode(latents)) / GIB


def _side(vae: Module, size: int) -> int:
    return int(size // 2 ** (len(vae.config.block_out_channels) - 1))


def _step_bytes(parts: Mapping[str, Module], rows: int, side: int, dtype: torch.dtype) -> int:
    """Count what one step takes, with what ControlNets add to it."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    if "unet" in parts:
        return _of_unet(parts["unet"], rows, side, empty)
    transformer = parts["transformer"]
    config = transformer.config
    tokens = (side // 2) ** 2  # patches of two by two, whether the model cuts them or not
    width = config.num_attention_heads * config.attention_head_dim
    blocks = min(config.num_layers, STEERED_BLOCKS)
    steered: int = rows * tokens * width * blocks * dtype.itemsize
    of = _of_flux if "guidance_embeds" in config else _of_sd3
    return steered + peak_bytes(of(transformer, rows, side, empty))


def _of_unet(unet: Module, rows: int, side: int, empty: Callable[..., Tensor]) -> int:
    config, added = unet.config, None
    if config.addition_embed_type == "text_time":
        times = config.addition_time_embed_dim * 6
        pooled = config.projection_class_embeddings_input_dim - times
        added = {"text_embeds": empty(rows, pooled), "time_ids": empty(rows, 6)}
    width = config.cross_attention_dim
    text = empty(rows, 77, width if isinstance(width, int) else max(width))
    guidance = config.time_cond_proj_dim and empty(rows, config.time_cond_proj_dim)
    skips: list[int] = []
    hooks = [
        block.register_forward_hook(lambda _, __, made: skips.append(_bytes(made[1])))
        for block in unet.down_blocks
    ]
    made = peak_bytes(
        lambda: unet(
            empty(rows, config.in_channels, side, side),
            empty(rows),
            text,
            timestep_cond=guidance,
            added_cond_kwargs=added,
        )
    )
    for hook in hooks:
        hook.remove()
    return made + sum(skips)  # ControlNets add as much to each


def _of_sd3(transformer: Module, rows: int, side: int, empty: Callable[..., Tensor]) -> Call:
    config = transformer.config
    return lambda: transformer(
        hidden_states=empty(rows, config.in_channels, side, side),
        encoder_hidden_states=empty(rows, 77 + 256, config.joint_attention_dim),
        pooled_projections=empty(rows, config.pooled_projection_dim),
        timestep=empty(rows),
    )


def _of_flux(transformer: Module, rows: int, side: int, empty: Callable[..., Tensor]) -> Call:
    config, tokens, words = transformer.config, (side // 2) ** 2, 512
    return lambda: transformer(
        hidden_states=empty(rows, tokens, config.in_channels),
        encoder_hidden_states=empty(rows, words, config.joint_attention_dim),
        pooled_projections=empty(rows, config.pooled_projection_dim),
        timestep=empty(rows),
        img_ids=empty(tokens, 3),
        txt_ids=empty(words, 3),
        guidance=empty(rows) if config.guidance_embeds else None,
    )


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)
