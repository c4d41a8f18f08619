"""Config and expected weights of Flux ControlNets. No torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.controlnet.encoder import Config, Shape, Traits, count_blocks, linear, read_shapes
from core.errors import BadWeights

#: Its blocks are of two kinds: name in the transformer -> name of what makes their residuals.
_KINDS = {
    "transformer_blocks.": "controlnet_blocks.",
    "single_transformer_blocks.": "controlnet_single_blocks.",
}
#: Parts of a transformer that a ControlNet copies, beside some of its blocks.
_COPIED = ("time_text_embed.", "context_embedder.", "x_embedder.")
#: Guidance as an embedding, which a ControlNet may do without.
_GUIDANCE = "time_text_embed.guidance_embedder."
_MODES = "controlnet_mode_embedder.weight"
_HINT = "input_hint_block."
#: Of the config of a transformer, what `FluxControlNetModel` is built by.
_SHARED = frozenset(
    [
        "patch_size",
        "in_channels",
        "attention_head_dim",
        "num_attention_heads",
        "joint_attention_dim",
        "pooled_projection_dim",
        "axes_dims_rope",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxEncoder:
    """A Flux transformer, of whose blocks a ControlNet has as many of each kind as it likes."""

    shapes: Mapping[str, Shape]  #: of every tensor that is copied
    shared: Config  #: what its config and that of a ControlNet have in common

    @classmethod
    def read(cls, folder: Path) -> "FluxEncoder | None":
        """Read it from a pipeline's folder; None if that has no such transformer.

        Raises: BadWeights naming the file and the reason.
        """
        file = folder / "transformer/config.json"
        config = json.loads(file.read_text()) if file.is_file() else {}
        if config.get("_class_name") != "FluxTransformer2DModel":
            return None
        return cls(
            shapes=read_shapes(file.parent, lambda name: name.startswith((*_COPIED, *_KINDS))),
            shared={name: value for name, value in config.items() if name in _SHARED},
        )

    def expected(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Its condition is embedded as latents are, and each block has a layer more."""
        if any(name.startswith(_HINT) for name in shapes):
            raise BadWeights(
                "it reads pixels, as XLabs' do, and is not served: use one that reads latents, as "
                "InstantX's and Shakker's do"
            )
        if not any(_count(shapes, kind) for kind in _KINDS):
            raise BadWeights("it has no transformer_blocks")
        is_guided = any(name.startswith(_GUIDANCE) for name in shapes)
        expected = {
            name: of
            for name, of in self.shapes.items()
            if name.startswith(_COPIED) and (is_guided or not name.startswith(_GUIDANCE))
        }
        embedder = self.shapes["x_embedder.weight"]
        expected |= linear("controlnet_x_embedder", *embedder)
        for kind, last in _KINDS.items():
            for number in range(min(_count(shapes, kind), _count(self.shapes, kind) + 1)):
                expected |= self._block(kind, number)
                expected |= linear(f"{last}{number}", embedder[0], embedder[0])
        if _MODES in shapes:
            expected[_MODES] = (shapes[_MODES][0], embedder[0])
        return expected

    def config(self, shapes: Mapping[str, Shape], traits: Traits) -> Config:
        """Write the config of `FluxControlNetModel` for these weights."""
        if traits.is_bgr or traits.is_told_pooled:
            raise BadWeights("of a Flux ControlNet nothing is to be chosen: leave the options out")
        layers, single_layers = (_count(shapes, kind) for kind in _KINDS)
        return {
            "_class_name": "FluxControlNetModel",
            **self.shared,
            "num_layers": layers,
            "num_single_layers": single_layers,
            "guidance_embeds": any(name.startswith(_GUIDANCE) for name in shapes),
            "num_mode": shapes[_MODES][0] if _MODES in shapes else None,
            "conditioning_embedding_channels": None,
        }

    def _block(self, kind: str, number: int) -> dict[str, Shape]:
        """Shape one block: all of a kind are alike."""
        first = f"{kind}0."
        return {
            f"{kind}{number}.{name.removeprefix(first)}": of
            for name, of in self.shapes.items()
            if name.startswith(first)
        }


def _count(shapes: Mapping[str, Shape], kind: str) -> int:
    return count_blocks(shapes, f"{kind}{{}}.")
