"""Derive which pictures a model makes from the configurations of its denoiser and its VAE. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from core.errors import ModelRefused

#: Pixels a side of the largest pictures that a model is trained on.
MAX_NATIVE = 2**14
#: What a folder that leaves it open means, as stock pipelines read it: pixels of latents.
_USUAL_SIDE = {"sd": 64, "sdxl": 128, "sd3": 128, "flux": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Widths and heights, in pixels."""

    native: int
    least: int
    most: int
    multiple: int


def sizes_of(family: str, denoiser: Mapping[str, object], vae: Mapping[str, object]) -> Sizes:
    """Derive the sizes: native as trained, from half of it to twice that, in whole tokens.

    Raises:
        ModelRefused: no model of these families makes pictures so large.
    """
    factor = _factor(vae)
    native = factor * _side(family, denoiser)
    if native > MAX_NATIVE:
        raise ModelRefused(
            f"its configurations say pictures of more than {MAX_NATIVE} pixels a side: they are "
            "`sample_size` times two for each of the VAE's `block_out_channels` but one"
        )
    multiple = gcd(factor * _cells(family, denoiser), native)
    most = 2 * native
    if furthest := denoiser.get("pos_embed_max_size"):  # places that SD 3 has names for
        most = min(most, int(str(furthest)) * factor * _patch(denoiser))
    return Sizes(
        native=native,
        least=max(multiple, -(-native // 2 // multiple) * multiple),
        most=max(native, most // multiple * multiple),
        multiple=multiple,
    )


def _factor(vae: Mapping[str, object]) -> int:
    """Pixels of a latent's pixel: each block of the VAE but the last halves the picture."""
    blocks = vae.get("block_out_channels")
    return 2 ** (len(blocks) - 1) if isinstance(blocks, list) and blocks else 8


def _side(family: str, denoiser: Mapping[str, object]) -> int:
    """Pixels of the latents that it was trained on."""
    side = None if family == "flux" else denoiser.get("sample_size")
    if isinstance(side, list):
        side = max(side, default=None)
    return side if isinstance(side, int) and side > 0 else _USUAL_SIDE[family]


def _cells(family: str, denoiser: Mapping[str, object]) -> int:
    """Pixels of latents that belong together: halved by the UNet's blocks, or one token."""
    if family in {"sd", "sdxl"}:
        blocks = denoiser.get("down_block_types")
        return 2 ** (len(blocks) - 1) if isinstance(blocks, list) and blocks else 8
    return 2 if family == "flux" else _patch(denoiser)


def _patch(denoiser: Mapping[str, object]) -> int:
    patch = denoiser.get("patch_size")
    return patch if isinstance(patch, int) else 2
