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

#: Layers of a model by their names, such as `unet.conv_in`, each with the shape of its weight; of
#: those with a bias also `unet.conv_in.bias`, of one dimension.
Shapes = Mapping[str, tuple[int, ...]]

#: Rows of a published layer that are one of ours, from and up to, in our order.
Rows = tuple[tuple[int, int], ...]

BIAS = ".bias"  #: what stands behind a layer in the name of its bias

TEXT_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")

#: What front ends call the text encoders.
_ENCODERS = {"text_encoder": "clip_l", "text_encoder_2": "clip_g"}

_ATTENTION = re.compile(r"(.+\.attn\d)\.(to_[qkv]|to_out)(?:\.0)?")
_TEXT_ATTENTION = {"q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v", "out_proj": "to_out"}

_RESNET = {
    "conv1": "in_layers.2",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
_ENDS = {
    "conv_in": "input_blocks.0.0",
    "conv_out": "out.2",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
}


def name_layers(shapes: Shapes) -> dict[str, str]:
    """Give every name that a file may call a layer of this model by -> the layer."""
    names: dict[str, str] = {}
    original = _Original.of(shapes)
    encoders = {layer.partition(".")[0] for layer in shapes} & {*TEXT_ENCODERS}
    for layer, shape in shapes.items():
        part, _, path = layer.partition(".")
        if len(shape) == 1:
            continue
        if part in TEXT_ENCODERS and path.startswith("encoder.block."):
            called = _of_t5(part, path)
        elif part in TEXT_ENCODERS:
            called = _of_text(part, path, is_alone=len(encoders) == 1)
        else:
            called = _of_model(part, path, original.name(path))
        names |= dict.fromkeys(called, layer)
    return names


def _of_model(part: str, path: str, original: str | None) -> Iterator[str]:
    yield from (path, f"base_model.model.{path}", f"{part}.{path}")
    yield from (f"diffusion_model.{path}", f"model.diffusion_model.{path}")
    for prefix in ("lora_unet", f"lora_{part}", "lycoris"):
        yield f"{prefix}_{path.replace('.', '_')}"
    if attention := _ATTENTION.fullmatch(path):
        where, which = attention.groups()
        yield from (f"{where}.processor.{which}", f"{part}.{where}.processor.{which}")
    if original is not None:
        yield f"lora_unet_{original.replace('.', '_')}"
        yield from (f"diffusion_model.{original}", f"model.diffusion_model.{original}")


def _of_text(part: str, path: str, *, is_alone: bool) -> Iterator[str]:
    kohya = "te2" if part == "text_encoder_2" else "te" if is_alone else "te1"
    where, _, last = path.rpartition(".")
    paths = [path, f"{where}.{_TEXT_ATTENTION[last]}"] if last in _TEXT_ATTENTION else [path]
    for each in (*paths, *(f"text_model.{one}" for one in paths)):
        yield f"{part}.{each}"
        yield f"lora_{kohya}_{each.replace('.', '_')}"
        if part in _ENCODERS:
            yield f"text_encoders.{_ENCODERS[part]}.transformer.{each}"
    if part == "text_encoder" and not is_alone:
        for each in (path, f"text_model.{path}"):
            yield f"lora_te_{each.replace('.', '_')}"


def _of_t5(part: str, path: str) -> Iterator[str]:
    """Name a layer of T5: the third encoder in sd-scripts, for Flux too, which has two."""
    yield from (f"{part}.{path}", f"text_encoders.t5xxl.transformer.{path}")
    for kohya in ("te3", "te2" if part == "text_encoder_2" else "te3"):
        yield f"lora_{kohya}_{path.replace('.', '_')}"


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
                return f"middle_block.{2 * int(number)}.{_RESNET[tail]}"
            case ["mid_block", "attentions", "0", *rest]:
                return f"middle_block.1.{'.'.join(rest)}"
            case [side, block, "downsamplers", "0", "conv"]:
                return f"{self._place(side, block, self.per_block)}.0.op"
            case [side, block, "upsamplers", "0", "conv"]:
                within = 1 + (block in self.attending)
                return f"{self._place(side, block, self.per_block)}.{within}.conv"
            case [side, block, "resnets", number, tail] if tail in _RESNET:
                return f"{self._place(side, block, int(number))}.0.{_RESNET[tail]}"
            case [side, block, "attentions", number, *rest]:
                return f"{self._place(side, block, int(number))}.1.{'.'.join(rest)}"
        return _ENDS.get(path)

    def _place(self, side: str, block: str, number: int) -> str:
        """Name a block. An upsampler belongs to the last resnet, a downsampler has its own."""
        place = int(block) * (self.per_block + 1) + number
        return f"input_blocks.{place + 1}" if side == "down_blocks" else f"output_blocks.{place}"
