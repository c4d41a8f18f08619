"""Config and expected weights of Stable Diffusion 3 ControlNets. No torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.controlnet.encoder import Config, Shape, Traits, count_blocks, linear, read_shapes
from core.errors import BadWeights

#: Parts of a transformer that a ControlNet copies: of its blocks the first ones.
_COPIED = ("pos_embed.", "time_text_embed.", "context_embedder.", "transformer_blocks.")
#: Of the config of a transformer, what `SD3ControlNetModel.from_transformer` takes over.
_SHARED = frozenset(
    [
        "sample_size",
        "patch_size",
        "in_channels",
        "attention_head_dim",
        "num_attention_heads",
        "joint_attention_dim",
        "caption_projection_dim",
        "pooled_projection_dim",
        "out_channels",
        "pos_embed_max_size",
        "dual_attention_layers",
        "qk_norm",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEncoder:
    """A transformer with joint blocks, of which a ControlNet has as many as it likes."""

    shapes: Mapping[str, Shape]  #: of every tensor that is copied
    shared: Config  #: what its config and that of a ControlNet have in common

    @classmethod
    def read(cls, folder: Path) -> "JointEncoder | None":
        """Read it from a pipeline's folder; None if that has no such transformer.

        Raises: BadWeights naming the file and the reason.
        """
        file = folder / "transformer/config.json"
        config = json.loads(file.read_text()) if file.is_file() else {}
        if config.get("_class_name") != "SD3Transformer2DModel":
            return None
        return cls(
            shapes=read_shapes(file.parent, lambda name: name.startswith(_COPIED)),
            shared={name: value for name, value in config.items() if name in _SHARED},
        )

    def expected(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Its condition is embedded as latents are, and each block has a layer more."""
        if not _count(shapes):
            raise BadWeights("it has no transformer_blocks")
        patches = self.shapes["pos_embed.proj.weight"]
        width = patches[0]
        others = {name: of for name, of in self.shapes.items() if not name.startswith(_COPIED[-1])}
        expected = {
            **others,
            "pos_embed_input.proj.weight": patches,
            "pos_embed_input.proj.bias": (width,),
        }
        for number in range(min(_count(shapes), _count(self.shapes) + 1)):  # more is wrong anyway
            expected |= self._block(number)
            expected |= linear(f"controlnet_blocks.{number}", width, width)
        return expected

    def config(self, shapes: Mapping[str, Shape], traits: Traits) -> Config:
        """Write the config of `SD3ControlNetModel` for these weights."""
        if traits.is_bgr:
            raise BadWeights("a ControlNet of a transformer reads latents, not colours")
        return {
            "_class_name": "SD3ControlNetModel",
            **self.shared,
            "num_layers": _count(shapes),
            "force_zeros_for_pooled_projection": not traits.is_told_pooled,
        }

    def _block(self, number: int) -> dict[str, Shape]:
        """Shape one block. The last one of a transformer has less than all others."""
        last = _count(self.shapes) - 1
        copied = f"transformer_blocks.{last - 1 if number == last else number}."
        return {
            f"transformer_blocks.{number}.{name.removeprefix(copied)}": shape
            for name, shape in self.shapes.items()
            if name.startswith(copied)
        }


def _count(shapes: Mapping[str, Shape]) -> int:
    return count_blocks(shapes, "transformer_blocks.{}.")
