"""Config and expected weights of T2I-Adapters. No torch.

Their shapes do not tell all: where features are halved follows from how large they begin.
"""

from collections.abc import Mapping, Sequence

from catalog.controlnet.encoder import Config, Shape, convolution, count_blocks
from core.errors import BadWeights

_BODY = "adapter.body.{}."
_FIRST = "adapter.conv_in.weight"


def is_t2i_adapter(shapes: Mapping[str, Shape]) -> bool:
    """Tell a T2I-Adapter by its names."""
    return any(name.startswith("adapter.body.") for name in shapes)


def expected_of_adapter(
    shapes: Mapping[str, Shape], widths: Sequence[int], halvings: int
) -> dict[str, Shape]:
    """List the weights that a file with these shapes must have.

    `widths`: channels of the blocks of the model's encoder; `halvings`: of a picture's sides, until
    it is as large as a latent.
    Raises: BadWeights if it cannot be one of this model.
    """
    config = config_of_adapter(shapes, widths, halvings)
    channels, depth = config["channels"], config["num_res_blocks"]
    assert isinstance(channels, list) and isinstance(depth, int)
    read = _pixels(config)
    if config["adapter_type"] == "light_adapter":
        return _light(read, [*channels, channels[-1]], depth)
    return _full(read, channels, depth)


def config_of_adapter(shapes: Mapping[str, Shape], widths: Sequence[int], halvings: int) -> Config:
    """Write the config of `T2IAdapter` for these weights. Raises: as `expected_of_adapter`."""
    blocks = count_blocks(shapes, _BODY)
    fitting = [*widths, widths[-1]][:blocks]  # the middle has one, if there are so many
    if not 2 <= blocks <= len(widths) + 1:
        raise BadWeights(f"it has {blocks} features, and this model takes up to {len(widths) + 1}")
    is_light = _FIRST not in shapes
    first = shapes.get("adapter.body.0.in_conv.weight" if is_light else _FIRST, ())
    kinds = ("light_adapter",) if is_light else ("full_adapter", "full_adapter_xl")
    for times, kind in enumerate(kinds):
        factor = 2 ** (halvings + times)
        for colours in (3, 1):
            if len(first) == 4 and first[1] == colours * factor**2:
                return {
                    "_class_name": "T2IAdapter",
                    "in_channels": colours,
                    "channels": fitting[:-1] if is_light else fitting,
                    "num_res_blocks": count_blocks(shapes, _BODY.format(0) + "resnets.{}."),
                    "downscale_factor": factor,
                    "adapter_type": kind,
                }
    raise BadWeights("it was made for pictures that are halved otherwise than this model's")


def _pixels(config: Config) -> int:
    colours, factor = config["in_channels"], config["downscale_factor"]
    assert isinstance(colours, int) and isinstance(factor, int)
    return colours * factor**2


def _full(read: int, channels: Sequence[int], depth: int) -> dict[str, Shape]:
    expected = convolution("adapter.conv_in", channels[0], read, side=3)
    before = channels[0]
    for number, width in enumerate(channels):
        prefix = _BODY.format(number)
        if before != width:
            expected |= convolution(f"{prefix}in_conv", width, before, side=1)
        for layer in range(depth):
            expected |= convolution(f"{prefix}resnets.{layer}.block1", width, width, side=3)
            expected |= convolution(f"{prefix}resnets.{layer}.block2", width, width, side=1)
        before = width
    return expected


def _light(read: int, channels: Sequence[int], depth: int) -> dict[str, Shape]:
    expected: dict[str, Shape] = {}
    before = read
    for number, width in enumerate(channels):
        prefix, middle = _BODY.format(number), width // 4
        expected |= convolution(f"{prefix}in_conv", middle, before, side=1)
        expected |= convolution(f"{prefix}out_conv", width, middle, side=1)
        for layer in range(depth):
            expected |= convolution(f"{prefix}resnets.{layer}.block1", middle, middle, side=3)
            expected |= convolution(f"{prefix}resnets.{layer}.block2", middle, middle, side=3)
        before = width
    return expected
