"""Name layers of Flux and SD 3 as their authors published them, where one may be several. Pure.

Published models keep queries, keys and values in one layer, of a single block of Flux its
feed-forward too, and shift before scale where diffusers has scale before shift: a file for them
holds rows of several layers of ours, or ours in another order
(https://github.com/black-forest-labs/flux, https://github.com/Stability-AI/sd3.5; diffusers,
`loaders/single_file_utils.py`). XLabs names what it adds by processors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catalog.lora.names import Rows, Shapes

_IMAGE, _TEXT = ("attn.to_q", "attn.to_k", "attn.to_v"), tuple(f"attn.add_{x}_proj" for x in "qkv")

_FLUX_DOUBLE = {
    "img_attn.qkv": _IMAGE,
    "txt_attn.qkv": _TEXT,
    "img_attn.proj": ("attn.to_out.0",),
    "txt_attn.proj": ("attn.to_add_out",),
    "img_mlp.0": ("ff.net.0.proj",),
    "img_mlp.2": ("ff.net.2",),
    "txt_mlp.0": ("ff_context.net.0.proj",),
    "txt_mlp.2": ("ff_context.net.2",),
    "img_mod.lin": ("norm1.linear",),
    "txt_mod.lin": ("norm1_context.linear",),
    "processor.qkv_lora1": _IMAGE,
    "processor.qkv_lora2": _TEXT,
    "processor.proj_lora1": ("attn.to_out.0",),
    "processor.proj_lora2": ("attn.to_add_out",),
}
_FLUX_SINGLE = {
    "linear1": (*_IMAGE, "proj_mlp"),
    "linear2": ("proj_out",),
    "modulation.lin": ("norm.linear",),
    "processor.qkv": _IMAGE,
    "processor.proj": ("proj_out",),
}
_FLUX_ENDS = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "time_in.in_layer": "time_text_embed.timestep_embedder.linear_1",
    "time_in.out_layer": "time_text_embed.timestep_embedder.linear_2",
    "guidance_in.in_layer": "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer": "time_text_embed.guidance_embedder.linear_2",
    "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": "norm_out.linear",
}
_SD3_JOINT = {
    "x_block.attn.qkv": _IMAGE,
    "x_block.attn2.qkv": ("attn2.to_q", "attn2.to_k", "attn2.to_v"),
    "x_block.attn.proj": ("attn.to_out.0",),
    "x_block.attn2.proj": ("attn2.to_out.0",),
    "x_block.mlp.fc1": ("ff.net.0.proj",),
    "x_block.mlp.fc2": ("ff.net.2",),
    "x_block.adaLN_modulation.1": ("norm1.linear",),
    "context_block.attn.qkv": _TEXT,
    "context_block.attn.proj": ("attn.to_add_out",),
    "context_block.mlp.fc1": ("ff_context.net.0.proj",),
    "context_block.mlp.fc2": ("ff_context.net.2",),
    "context_block.adaLN_modulation.1": ("norm1_context.linear",),
}
_SD3_ENDS = {
    "x_embedder.proj": "pos_embed.proj",
    "context_embedder": "context_embedder",
    "t_embedder.mlp.0": "time_text_embed.timestep_embedder.linear_1",
    "t_embedder.mlp.2": "time_text_embed.timestep_embedder.linear_2",
    "y_embedder.mlp.0": "time_text_embed.text_embedder.linear_1",
    "y_embedder.mlp.2": "time_text_embed.text_embedder.linear_2",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": "norm_out.linear",
}

#: Layers that scale and shift what is not gated: the two are the other way about.
_SWAPPED = ("norm_out.linear", "norm1_context.linear")


@dataclass(frozen=True, slots=True)
class LayerRows:
    """What a layer of ours has of a published one."""

    layer: str  #: such as `transformer.proj_out`
    rows: Rows = ()  #: all if empty


def name_originals(shapes: Shapes) -> dict[str, tuple[LayerRows, ...]]:
    """Give every name that a file may call a published layer by -> ours that it is made of."""
    names: dict[str, tuple[LayerRows, ...]] = {}
    for name, paths in _originals(shapes):
        layers = [f"transformer.{path}" for path in paths]
        if all(layer in shapes for layer in layers):
            shares = _shares(layers, shapes)
            names |= dict.fromkeys(_called(name), shares)
    return names


def _originals(shapes: Shapes) -> Iterator[tuple[str, tuple[str, ...]]]:
    if "transformer.x_embedder" in shapes:
        blocks: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
            "transformer_blocks": ("double_blocks", _FLUX_DOUBLE),
            "single_transformer_blocks": ("single_blocks", _FLUX_SINGLE),
        }
        ends = _FLUX_ENDS
    elif "transformer.pos_embed.proj" in shapes:
        blocks, ends = {"transformer_blocks": ("joint_blocks", _SD3_JOINT)}, _SD3_ENDS
    else:
        return
    for name, path in ends.items():
        yield name, (path,)
    paths = (layer.split(".") for layer in shapes)
    found = {(path[1], path[2]) for path in paths if path[0] == "transformer" and len(path) > 2}
    for block, number in sorted(found):
        if block in blocks:
            called, layers = blocks[block]
            for name, inner in layers.items():
                yield f"{called}.{number}.{name}", tuple(f"{block}.{number}.{x}" for x in inner)


def _shares(layers: list[str], shapes: Shapes) -> tuple[LayerRows, ...]:
    out, into = shapes[layers[0]][:2]
    if len(layers) > 1:
        shares, begin = [], 0
        for layer in layers:
            end = begin + shapes[layer][0]
            shares.append(LayerRows(layer, ((begin, end),)))
            begin = end
        return tuple(shares)
    if layers[0].endswith(_SWAPPED) and out == 2 * into:
        return (LayerRows(layers[0], ((into, out), (0, into))),)
    return (LayerRows(layers[0]),)


def _called(name: str) -> Iterator[str]:
    for prefix in ("", "diffusion_model.", "model.diffusion_model.", "base_model.model."):
        yield f"{prefix}{name}"
    for prefix in ("lora_unet", "lycoris"):
        yield f"{prefix}_{name.replace('.', '_')}"
