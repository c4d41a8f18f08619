"""Config and weights that a Union has beside those of any ControlNet. No torch."""

from collections.abc import Mapping

from catalog.controlnet.encoder import Config, Shape, count_blocks, linear
from core.errors import BadWeights

_TASKS = "task_embedding"
_LAYERS = "transformer_layes.{}."  # as diffusers spells it
#: No tensor tells it: all that diffusers makes have so many.
_HEADS = 8


def is_union(shapes: Mapping[str, Shape]) -> bool:
    """Tell a ControlNet Union by the embedding of what its pictures show."""
    return _TASKS in shapes


def expected_of_union(
    shapes: Mapping[str, Shape], shared: Config, *, width: int, time_width: int
) -> dict[str, Shape]:
    """List what it has beside the weights of a ControlNet.

    `width`: channels of the first block; `time_width`: of the embedding of the timestep.
    Raises: BadWeights if a model of this kind has none.
    """
    size = shared.get("addition_time_embed_dim")
    if not isinstance(size, int):
        raise BadWeights("Union ControlNets are of SDXL, and this model is not")
    if len(shapes[_TASKS]) != 2 or width % _HEADS:
        raise BadWeights(f"{_TASKS} is of no Union ControlNet that diffusers makes")
    expected: dict[str, Shape] = {
        _TASKS: (shapes[_TASKS][0], width),
        **linear("spatial_ch_projs", width, width),
        **linear("control_add_embedding.linear_1", time_width, shapes[_TASKS][0] * size),
        **linear("control_add_embedding.linear_2", time_width, time_width),
    }
    for number in range(count_blocks(shapes, _LAYERS)):
        expected |= _layer(_LAYERS.format(number), width)
    return expected


def config_of_union(shapes: Mapping[str, Shape]) -> Config:
    """Write what the config of `ControlNetUnionModel` says beside that of a ControlNet."""
    modes, width = shapes[_TASKS]
    return {
        "_class_name": "ControlNetUnionModel",
        "num_control_type": modes,
        "num_trans_channel": width,
        "num_trans_head": _HEADS,
        "num_trans_layer": count_blocks(shapes, _LAYERS),
        "num_proj_channel": width,
    }


def _layer(prefix: str, width: int) -> dict[str, Shape]:
    return {
        f"{prefix}attn.in_proj_weight": (3 * width, width),
        f"{prefix}attn.in_proj_bias": (3 * width,),
        **linear(f"{prefix}attn.out_proj", width, width),
        **linear(f"{prefix}mlp.c_fc", 4 * width, width),
        **linear(f"{prefix}mlp.c_proj", width, 4 * width),
        **{f"{prefix}{ln}.{part}": (width,) for ln in ("ln_1", "ln_2") for part in _NORM},
    }


_NORM = ("weight", "bias")
