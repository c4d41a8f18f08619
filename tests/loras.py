"""LoRA files with random weights, as the tools of each format write them."""

import torch
from safetensors.torch import save_file

#: Ends of the names of layers that tools adapt.
ATTENTION = (".to_q", ".to_k", ".to_v", ".to_out.0", "proj_in", "proj_out", "ff.net.2")
CONVOLUTIONS = (".conv1", ".conv2", "conv_in", "downsamplers.0.conv", ".conv_shortcut")
TEXT = (".q_proj", ".v_proj", ".out_proj", ".fc1")

#: What each format calls the two factors, and puts between them and the layer.
PEFT, OLD, KOHYA = (
    (".lora_A.weight", ".lora_B.weight"),
    (".lora.down.weight", ".lora.up.weight"),
    (".lora_down.weight", ".lora_up.weight"),
)


def factors(shapes, ends, *, rank=4, seed=0, size=0.2, parts=None):
    """Draw factors for every layer with one of these ends: layer -> (down, up)."""
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for layer, shape in shapes.items():
        if layer.endswith(ends) and (parts is None or layer.partition(".")[0] in parts):
            down = torch.randn(rank, *shape[1:], generator=draw) * size
            up = torch.randn(shape[0], rank, *[1] * (len(shape) - 2), generator=draw) * size
            found[layer] = (down, up)
    return found


def as_bytes(data):
    """Look at a file as a loader hands it over. Shapes: [size of the file]."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def save_peft(path, drawn, metadata=None):
    """As `save_lora_weights` of diffusers does."""
    save_file(dict(_named(drawn, _stock_name, PEFT)), path, metadata=metadata)
    return path


def save_old(path, drawn):
    """As diffusers did before peft."""
    save_file(dict(_named(drawn, _stock_name, OLD)), path)
    return path


def save_kohya(path, drawn, alphas, name=None):
    """As sd-scripts does, with an alpha for each layer."""
    name = name or kohya_name
    tensors = dict(_named(drawn, name, KOHYA))
    tensors |= {f"{name(layer)}.alpha": torch.tensor(alphas[layer]) for layer in drawn}
    save_file(tensors, path)
    return path


def kohya_name(layer):
    part, _, path = layer.partition(".")
    prefix = {"unet": "lora_unet", "text_encoder": "lora_te1", "text_encoder_2": "lora_te2"}[part]
    return f"{prefix}_{_in_text_model(part, path).replace('.', '_')}"


def _stock_name(layer):
    part, _, path = layer.partition(".")
    return f"{part}.{_in_text_model(part, path)}"


def _in_text_model(part, path):
    return f"text_model.{path}" if part.startswith("text") else path


def _named(drawn, name, roles):
    for layer, pair in drawn.items():
        for role, factor in zip(roles, pair, strict=True):
            yield f"{name(layer)}{role}", factor.contiguous()
