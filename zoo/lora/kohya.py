"""Layer names of SDXL in sd-scripts (kohya) format. Pure.

It counts the blocks of the original UNet, where resnets and attentions share one list:
https://github.com/kohya-ss/sd-scripts, library/sdxl_original_unet.py.
"""

_RESNET = {"conv1": "in_layers_2", "conv2": "out_layers_3"}
_MIDDLE = {("resnets", 0): 0, ("attentions", 0): 1, ("resnets", 1): 2}
_INNER = {"resnets": 0, "attentions": 1}
_ENDS = {"conv_in": "input_blocks_0_0", "conv_out": "out_2"}
_TEXT = {"text_encoder": "lora_te1", "text_encoder_2": "lora_te2"}


def layer_name(name: str, layers_per_block: int) -> str:
    """Name a layer: `unet.mid_block.attentions.0.proj_in` -> `lora_unet_middle_block_1_proj_in`.

    Raises: ValueError for a layer of another kind than those that the styles adapt.
    """
    part, _, path = name.partition(".")
    if part in _TEXT:
        return f"{_TEXT[part]}_{path.replace('.', '_')}"
    return f"lora_unet_{_unet_path(path, layers_per_block)}"


def _unet_path(path: str, layers_per_block: int) -> str:
    if path in _ENDS:
        return _ENDS[path]
    words = path.split(".")
    if words[0] == "mid_block":
        kind, number, *rest = words[1:]
        return f"middle_block_{_MIDDLE[kind, int(number)]}_{_tail(kind, rest)}"
    side, block, kind, number, *rest = words
    if kind not in _INNER:
        raise ValueError(f"no name for {path}: neither attention nor resnet")
    place = int(block) * (layers_per_block + 1) + int(number)
    # The first input block is the convolution before all others.
    where = f"input_blocks_{place + 1}" if side == "down_blocks" else f"output_blocks_{place}"
    return f"{where}_{_INNER[kind]}_{_tail(kind, rest)}"


def _tail(kind: str, rest: list[str]) -> str:
    return "_".join(rest) if kind == "attentions" else _RESNET[rest[0]]
