"""Layers of Flux and SD 3 as published, LoRA files for them, and diffusers' own conversion."""

import torch
from diffusers.loaders.single_file_utils import (
    convert_flux_transformer_checkpoint_to_diffusers,
    convert_sd3_transformer_checkpoint_to_diffusers,
)

#: The width of Flux, which its converter takes for granted where it cuts rows; columns may be few.
WIDE = 3072


def flux_layers(d=2):
    """One double block and one single: layer -> [out, in]."""
    double = {
        f"double_blocks.0.{side}_{name}": shape
        for side in ("img", "txt")
        for name, shape in {
            "attn.qkv": (9, d), "attn.proj": (d, d), "mlp.0": (4 * d, d), "mlp.2": (d, 4 * d),
            "mod.lin": (6 * d, d),
        }.items()
    }  # fmt: skip
    ends = dict.fromkeys(("time_in", "guidance_in", "vector_in"), (d, 3))
    return {
        **double,
        "single_blocks.0.linear1": (7 * WIDE, d),
        "single_blocks.0.linear2": (d, 5 * d),
        "single_blocks.0.modulation.lin": (3 * d, d),
        **{f"{name}.in_layer": shape for name, shape in ends.items()},
        **{f"{name}.out_layer": (d, d) for name in ends},
        "img_in": (d, 4),
        "txt_in": (d, 5),
        "final_layer.linear": (4, d),
        "final_layer.adaLN_modulation.1": (2 * d, d),
    }


def sd3_layers(d=4):
    """Two blocks, of which the first attends twice and the last does not go on with the text."""
    layers = {}
    for at in range(2):
        for side in ("x_block", "context_block"):
            block = {"attn.qkv": (3 * d, d), "adaLN_modulation.1": (6 * d, d)}
            if side == "x_block" or at == 0:
                block |= {"attn.proj": (d, d), "mlp.fc1": (4 * d, d), "mlp.fc2": (d, 4 * d)}
            else:
                block["adaLN_modulation.1"] = (2 * d, d)
            if (side, at) == ("x_block", 0):
                block |= {"attn2.qkv": (3 * d, d), "attn2.proj": (d, d)}
            layers |= {f"joint_blocks.{at}.{side}.{name}": shape for name, shape in block.items()}
    return layers | {
        "x_embedder.proj": (d, 3, 2, 2),
        "context_embedder": (d, 5),
        "t_embedder.mlp.0": (d, 6),
        "t_embedder.mlp.2": (d, d),
        "y_embedder.mlp.0": (d, 7),
        "y_embedder.mlp.2": (d, d),
        "final_layer.linear": (8, d),
        "final_layer.adaLN_modulation.1": (2 * d, d),
    }


LAYERS = {"flux": flux_layers, "sd3": sd3_layers}


def draw(layers, rank=2, seed=0):
    """Draw factors and a bias for each layer: layer -> (down, up, bias)."""
    torch.manual_seed(seed)
    return {
        layer: (
            torch.randn(rank, *shape[1:]),
            torch.randn(shape[0], rank, *[1] * (len(shape) - 2)),
            torch.randn(shape[0]),
        )
        for layer, shape in layers.items()
    }


def convert(kind, drawn, scale):
    """Have diffusers convert the changes of weights and biases: path -> tensor."""
    published = {}
    for layer, (down, up, bias) in drawn.items():
        product = scale * up.flatten(1) @ down.flatten(1)
        published[f"{layer}.weight"] = product.view(len(up), *down.shape[1:])
        published[f"{layer}.bias"] = bias
    if kind == "flux":
        for which in ("query", "key"):
            published[f"single_blocks.0.norm.{which}_norm.scale"] = torch.zeros(1)
            for side in ("img", "txt"):
                name = f"double_blocks.0.{side}_attn.norm.{which}_norm.scale"
                published[name] = torch.zeros(1)
        return convert_flux_transformer_checkpoint_to_diffusers(published)
    published["pos_embed"] = torch.zeros(1)
    return convert_sd3_transformer_checkpoint_to_diffusers(published)


def kohya(drawn, alpha):
    """As sd-scripts names them, with a difference of each bias."""
    tensors = {}
    for layer, (down, up, bias) in drawn.items():
        name = f"lora_unet_{layer.replace('.', '_')}"
        tensors |= {
            f"{name}.lora_down.weight": down,
            f"{name}.lora_up.weight": up,
            f"{name}.alpha": torch.tensor(alpha),
            f"{name}.diff_b": bias,
        }
    return tensors


def dotted(drawn, alpha, prefix="diffusion_model."):
    """As front ends name them; peft scales the bias of its upper factor too."""
    tensors = {}
    for layer, (down, up, bias) in drawn.items():
        tensors |= {
            f"{prefix}{layer}.lora_A.weight": down,
            f"{prefix}{layer}.lora_B.weight": up,
            f"{prefix}{layer}.lora_B.bias": bias * len(down) / alpha,
            f"{prefix}{layer}.alpha": torch.tensor(alpha),
        }
    return tensors
