"""Map tensor names of LoRA files to model layers. Pure.

Nothing is guessed: every layer of the model is named in every way that tools write, and a name
that is none of these does not fit the model. Ways: peft, older diffusers, and kohya's sd-scripts
with the blocks of diffusers or, as for SDXL, those of the original UNet, where resnets and
attentions share one list and the convolution before all is the first block
(https://github.com/kohya-ss/sd-scripts, library/sdxl_model_util.py).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

#: Layers of a model by their names, such as `unet.conv_in`, each with the shape of its weight.
Shapes = Mapping[str, tuple[int, ...]]

TEXT_ENCODERS = ("text_encoder", "text_encoder_2")

_ATTENTION = re.compile(r"(.+\.attn\d)\.(to_[qkv]|to_out)(?:\.0)?")
_TEXT_ATTENTION = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}

_RESNET = {
    "conv1": "in_layers_2",
    "conv2": "out_layers_3",
    "time_emb_proj": "emb_layers_1",
    "conv_shortcut": "skip_connection",
}
_ENDS = {
    "conv_in": "input_blocks_0_0",
    "conv_out": "out_2",
    "time_embedding.linear_1": "time_embed_0",
    "time_embedding.linear_2": "time_embed_2",
    "add_embedding.linear_1": "label_emb_0_0",
    "add_embedding.linear_2": "label_emb_0_2",
}


def name_layers(shapes: Shapes) -> dict[str, str]:
    """Give every name that a file may call a layer of this model by -> the layer."""
    names: dict[str, str] = {}
    original = _Original.of(shapes)
    encoders = {layer.partition(".")[0] for layer in shapes} & {*TEXT_ENCODERS}
    for layer in shapes:
        part, _, path = layer.partition(".")
        if part in TEXT_ENCODERS:
            called = _of_text(part, path, is_alone=len(encoders) == 1)
        else:
            called = _of_model(part, path, original.name(path))
        names |= dict.fromkeys(called, layer)
    return names


def _of_model(part: str, path: str, original: str | None) -> Iterator[str]:
    yield from (path, f"base_model.model.{path}", f"{part}.{path}")
    yield f"lora_unet_{path.replace('.', '_')}"
    if attention := _ATTENTION.fullmatch(path):
        where, which = attention.groups()
        yield from (f"{where}.processor.{which}", f"{part}.{where}.processor.{which}")
    if original is not None:
        yield f"lora_unet_{original}"


def _of_text(part: str, path: str, *, is_alone: bool) -> Iterator[str]:
    kohya = "te2" if part == "text_encoder_2" else "te" if is_alone else "te1"
    where, _, last = path.rpartition(".")
    paths = [path, f"{where}.{_TEXT_ATTENTION[last]}"] if last in _TEXT_ATTENTION else [path]
    for each in (*paths, *(f"text_model.{one}" for one in paths)):
        yield f"{part}.{each}"
        yield f"lora_{kohya}_{each.replace('.', '_')}"


@dataclass(frozen=True, slots=True)
class _Original:
    """The UNet as it was published, before diffusers named its blocks."""

    per_block: int  #: resnets of a block on the way down; one more on the way up
    attending: frozenset[str]  #: blocks on the way up that have attentions, by number

    @classmethod
    def of(cls, shapes: Shapes) -> "_Original":
        paths = [layer.split(".")[1:] for layer in shapes]
        return cls(
            per_block=len({p[3] for p in paths if p[:3] == ["down_blocks", "0", "resnets"]}),
            attending=frozenset(
                p[1] for p in paths if p[0] == "up_blocks" and p[2] == "attentions"
            ),
        )

    def name(self, path: str) -> str | None:
        """Name a layer; None where it has none of this kind."""
        match path.split("."):
            case ["mid_block", "resnets", number, tail] if tail in _RESNET:
                return f"middle_block_{2 * int(number)}_{_RESNET[tail]}"
            case ["mid_block", "attentions", "0", *rest]:
                return f"middle_block_1_{'_'.join(rest)}"
            case [side, block, "downsamplers", "0", "conv"]:
                return f"{self._place(side, block, self.per_block)}_0_op"
            case [side, block, "upsamplers", "0", "conv"]:
                within = 1 + (block in self.attending)
                return f"{self._place(side, block, self.per_block)}_{within}_conv"
            case [side, block, "resnets", number, tail] if tail in _RESNET:
                return f"{self._place(side, block, int(number))}_0_{_RESNET[tail]}"
            case [side, block, "attentions", number, *rest]:
                return f"{self._place(side, block, int(number))}_1_{'_'.join(rest)}"
        return _ENDS.get(path)

    def _place(self, side: str, block: str, number: int) -> str:
        """Name a block. An upsampler belongs to the last resnet, a downsampler has its own."""
        place = int(block) * (self.per_block + 1) + number
        return f"input_blocks_{place + 1}" if side == "down_blocks" else f"output_blocks_{place}"
