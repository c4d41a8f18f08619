"""Single-file checkpoints as people have them: stock pipelines under their original names."""

import re
from pathlib import Path

import torch
from safetensors.torch import save_file

_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
_UNET_ENDS = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}


def save_sd_file(pipe, path: Path) -> Path:
    """One file of a Stable Diffusion 1.x pipeline."""
    return save(
        path,
        {
            **prefixed("model.diffusion_model.", unet(pipe.unet)),
            **prefixed("first_stage_model.", vae(pipe.vae)),
            **prefixed("cond_stage_model.transformer.", clip(pipe.text_encoder)),
        },
    )


def save_sdxl_file(pipe, path: Path) -> Path:
    """One file of an SDXL pipeline."""
    return save(
        path,
        {
            **prefixed("model.diffusion_model.", unet(pipe.unet)),
            **prefixed("first_stage_model.", vae(pipe.vae)),
            **prefixed("conditioner.embedders.0.transformer.", clip(pipe.text_encoder)),
            **prefixed("conditioner.embedders.1.model.", open_clip(pipe.text_encoder_2)),
        },
    )


def save(path: Path, tensors) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, path)
    return path


def prefixed(prefix, tensors):
    return {prefix + name: tensor for name, tensor in tensors.items()}


def unet(module):
    depth = module.config.layers_per_block
    return {_unet_name(name, depth, module): t for name, t in module.state_dict().items()}


def _unet_name(name, depth, module):
    for end, original in _UNET_ENDS.items():
        if name.startswith(end + "."):
            return name.replace(end, original, 1)
    if found := re.match(r"mid_block\.(resnets|attentions)\.(\d)\.(.*)", name):
        place = 1 if found[1] == "attentions" else 2 * int(found[2])
        return f"middle_block.{place}.{_inner(found[1], found[3])}"
    kind, block, part, at, rest = re.match(
        r"(down|up)_blocks\.(\d+)\.(\w+)\.(\d+)\.(.*)", name
    ).groups()
    block, at = int(block), int(at)
    if part == "downsamplers":
        return f"input_blocks.{(depth + 1) * (block + 1)}.0.{rest.replace('conv', 'op', 1)}"
    if part == "upsamplers":
        attends = hasattr(module.up_blocks[block], "attentions")
        return f"output_blocks.{(depth + 1) * block + depth}.{2 if attends else 1}.{rest}"
    place = 1 if part == "attentions" else 0
    if kind == "down":
        return f"input_blocks.{(depth + 1) * block + at + 1}.{place}.{_inner(part, rest)}"
    return f"output_blocks.{(depth + 1) * block + at}.{place}.{_inner(part, rest)}"


def _inner(part, rest):
    if part != "resnets":
        return rest
    first, _, last = rest.partition(".")
    return f"{_RESNET[first]}.{last}"


def vae(module):
    blocks = len(module.config.block_out_channels)
    found = {}
    for name, tensor in module.state_dict().items():
        original = _vae_name(name, blocks)
        is_square = ".attn_1." in original and name.endswith("weight") and tensor.dim() == 2
        found[original] = tensor[:, :, None, None] if is_square else tensor
    return found


def _vae_name(name, blocks):
    name = name.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
    name = re.sub(r"down_blocks\.(\d)\.resnets\.(\d)", r"down.\1.block.\2", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", name)
    up = lambda found: f"up.{blocks - 1 - int(found[1])}"  # noqa: E731
    name = re.sub(r"up_blocks\.(\d)", up, name)
    name = re.sub(r"\.resnets\.(\d)", r".block.\1", name) if "mid_block" not in name else name
    name = name.replace(".upsamplers.0", ".upsample")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda found: f"mid.block_{int(found[1]) + 1}", name)
    name = name.replace("mid_block.attentions.0", "mid.attn_1")
    if "attn_1" in name:
        for new, old in (("group_norm", "norm"), ("to_out.0", "proj_out")):
            name = name.replace(new, old)
        name = re.sub(r"to_([qkv])", r"\1", name)
    return name


def clip(module):
    """CLIP as transformers named it when these files were made."""
    found = module.state_dict()
    return {n if n.startswith("text_") else f"text_model.{n}": t for n, t in found.items()}


def open_clip(module):
    """CLIP as OpenCLIP names it: queries, keys and values in one."""
    found, fused = {}, {}
    for name, tensor in clip(module).items():
        if match := re.match(r"(.*self_attn)\.([qkv])_proj\.(weight|bias)", name):
            fused.setdefault((match[1], match[3]), {})[match[2]] = tensor
            continue
        found[_open_name(name)] = tensor.T if name == "text_projection.weight" else tensor
    for (place, kind), parts in fused.items():
        whole = torch.cat([parts[each] for each in "qkv"])
        found[f"{_open_name(place)}.in_proj_{kind}"] = whole
    return found


def _open_name(name):
    names = {
        "text_model.encoder.layers.": "transformer.resblocks.",
        "layer_norm1": "ln_1",
        "layer_norm2": "ln_2",
        ".mlp.fc1": ".mlp.c_fc",
        ".mlp.fc2": ".mlp.c_proj",
        "self_attn": "attn",
        "text_model.final_layer_norm": "ln_final",
        "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
        "text_model.embeddings.position_embedding.weight": "positional_embedding",
        "text_projection.weight": "text_projection",
    }
    for new, old in names.items():
        name = name.replace(new, old)
    return name


class Flux:
    """A Flux transformer under its original names: fused rows, shift before scale at the end."""

    def __init__(self, module):
        self.state, self.found = module.state_dict(), {}
        self.embedders()
        for at in range(module.config.num_layers):
            for side in SIDES:
                self.double(f"transformer_blocks.{at}", f"double_blocks.{at}", *side)
        for at in range(module.config.num_single_layers):
            self.single(f"single_transformer_blocks.{at}", f"single_blocks.{at}")

    def take(self, new, old):
        for kind in ("weight", "bias"):
            if f"{new}.{kind}" in self.state:
                self.found[f"{old}.{kind}"] = self.state[f"{new}.{kind}"]

    def fuse(self, news, old):
        for kind in ("weight", "bias"):
            self.found[f"{old}.{kind}"] = torch.cat([self.state[f"{new}.{kind}"] for new in news])

    def embedders(self):
        names = {"timestep": "time", "text": "vector", "guidance": "guidance"}
        for new, old in names.items():
            for at, end in ((1, "in_layer"), (2, "out_layer")):
                self.take(f"time_text_embed.{new}_embedder.linear_{at}", f"{old}_in.{end}")
        self.take("context_embedder", "txt_in")
        self.take("x_embedder", "img_in")
        self.take("proj_out", "final_layer.linear")
        for kind in ("weight", "bias"):
            scale, shift = self.state[f"norm_out.linear.{kind}"].chunk(2)
            self.found[f"final_layer.adaLN_modulation.1.{kind}"] = torch.cat([shift, scale])

    def double(self, new, old, side, norm, add, out, ff, of):
        self.take(f"{new}.{norm}.linear", f"{old}.{side}_mod.lin")
        self.fuse([f"{new}.attn.{add.format(x)}" for x in "qkv"], f"{old}.{side}_attn.qkv")
        self.take(f"{new}.attn.{out}", f"{old}.{side}_attn.proj")
        self.take(f"{new}.{ff}.net.0.proj", f"{old}.{side}_mlp.0")
        self.take(f"{new}.{ff}.net.2", f"{old}.{side}_mlp.2")
        self.norms(f"{new}.attn.{of}", f"{old}.{side}_attn.norm")

    def single(self, new, old):
        self.take(f"{new}.norm.linear", f"{old}.modulation.lin")
        self.fuse([*(f"{new}.attn.to_{x}" for x in "qkv"), f"{new}.proj_mlp"], f"{old}.linear1")
        self.take(f"{new}.proj_out", f"{old}.linear2")
        self.norms(f"{new}.attn.norm", f"{old}.norm")

    def norms(self, new, old):
        for x, key in (("q", "query"), ("k", "key")):
            self.found[f"{old}.{key}_norm.scale"] = self.state[f"{new}_{x}.weight"]


SIDES = (
    ("img", "norm1", "to_{}", "to_out.0", "ff", "norm"),
    ("txt", "norm1_context", "add_{}_proj", "to_add_out", "ff_context", "norm_added"),
)
