"""Tiny IP-Adapters with random weights, saved as stock's files."""

import json

import torch
from safetensors.torch import save_file
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

FILE = "ip-adapter_sd15.safetensors"


def save_ip_adapter(folder, unet, models, *, is_plus=False, seed=0):
    """A folder of the service, which stock's `load_ip_adapter` loads too. It has a loud voice."""
    torch.manual_seed(seed)
    width, seen = unet.config.cross_attention_dim, 24
    if is_plus:
        project = resampler(width)
    else:
        project = {
            "proj.weight": torch.randn(4 * width, seen),
            "proj.bias": torch.randn(4 * width),
            "norm.weight": torch.ones(width),
            "norm.bias": torch.zeros(width),
        }
    tensors = {f"image_proj.{name}": each for name, each in project.items()}
    layers = [n for n in unet.attn_processors if not n.endswith("attn1.processor")]
    for at, name in enumerate(layers):
        layer = unet.get_submodule(name.removesuffix(".processor"))
        for role in "kv":
            made = torch.randn(layer.to_k.out_features, width) * 0.3
            tensors[f"ip_adapter.{2 * at + 1}.to_{role}_ip.weight"] = made
    folder.mkdir(parents=True)
    save_file({name: each.contiguous() for name, each in tensors.items()}, folder / FILE)
    encoder = CLIPVisionModelWithProjection(
        CLIPVisionConfig(
            hidden_size=32,
            intermediate_size=37,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=16,
            patch_size=8,
            projection_dim=seen,
        )
    )
    encoder.save_pretrained(folder / "image_encoder")
    (folder / "atelier.json").write_text(json.dumps({"name": folder.name, "models": models}))


def resampler(width, hidden=64, patches=32, queries=5, depth=4):
    """The weights of a plus adapter's projection, by the names of its authors."""
    made = {"latents": (1, queries, hidden)}
    for name, shape in (("proj_in", (hidden, patches)), ("proj_out", (width, hidden))):
        made |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    made |= {"norm_out.weight": (width,), "norm_out.bias": (width,)}
    for at in range(depth):
        for norm in ("0.norm1", "0.norm2", "1.0"):
            made |= {f"layers.{at}.{norm}.{part}": (hidden,) for part in ("weight", "bias")}
        for name, shape in (
            ("0.to_q", (hidden, hidden)),
            ("0.to_kv", (2 * hidden, hidden)),
            ("0.to_out", (hidden, hidden)),
            ("1.1", (4 * hidden, hidden)),
            ("1.3", (hidden, 4 * hidden)),
        ):
            made[f"layers.{at}.{name}.weight"] = shape
    return {name: torch.randn(shape) * 0.2 for name, shape in made.items()}
