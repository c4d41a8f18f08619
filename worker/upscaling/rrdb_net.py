"""ESRGAN's network, RRDBNet, as Real-ESRGAN publishes it; older names are those of its layers.

Source: ESRGAN (Wang et al. 2018) §3.1; Real-ESRGAN (Wang et al. 2021) §3.3, `basicsr.archs`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from catalog.description.upscaler import CONVS, DENSE, Upscaler

RESIDUAL = 0.2  #: share of what a block makes that it adds to what it was given
SLOPE = 0.2  #: of leaky ReLUs, below zero


class RRDBNet(nn.Module):
    """Makes a picture larger. Shapes: [N, 3, H, W] in [0, 1] -> [N, 3, scale H, scale W]."""

    def __init__(self, net: Upscaler) -> None:
        super().__init__()
        full, self._unshuffle, self._doublings = net.features, net.unshuffle, net.doublings
        self.conv_first = _conv(3 * net.unshuffle**2, full)
        self.body = nn.Sequential(*(_Block(full, net.growth) for _ in range(net.blocks)))
        self.conv_body = _conv(full, full)
        for number in range(1, net.doublings + 1):
            self.add_module(f"conv_up{number}", _conv(full, full))
        self.conv_hr = _conv(full, full)
        self.conv_last = _conv(full, 3)

    def forward(self, pictures: Tensor) -> Tensor:
        """Enlarge; what does not divide into what the network lays together is mirrored on."""
        height, width = (side * 2**self._doublings for side in pictures.shape[-2:])
        whole = _mirrored(pictures, self._unshuffle)
        first = self.conv_first(functional.pixel_unshuffle(whole, self._unshuffle))
        features = first + self.conv_body(self.body(first))
        for number in range(1, self._doublings + 1):
            larger = functional.interpolate(features, scale_factor=2, mode="nearest")
            features = _bent(self.get_submodule(f"conv_up{number}")(larger))
        made: Tensor = self.conv_last(_bent(self.conv_hr(features)))
        return made[..., : height // self._unshuffle, : width // self._unshuffle]


class _Block(nn.Module):
    """Three dense blocks, the residual in the residual."""

    def __init__(self, full: int, growth: int) -> None:
        super().__init__()
        for number in range(1, DENSE + 1):
            self.add_module(f"rdb{number}", _DenseBlock(full, growth))

    def forward(self, features: Tensor) -> Tensor:
        made = features
        for dense in self.children():
            made = dense(made)
        return made * RESIDUAL + features


class _DenseBlock(nn.Module):
    """Convolutions that each read what all before them have made."""

    def __init__(self, full: int, growth: int) -> None:
        super().__init__()
        for number in range(1, CONVS):
            self.add_module(f"conv{number}", _conv(full + (number - 1) * growth, growth))
        self.add_module(f"conv{CONVS}", _conv(full + (CONVS - 1) * growth, full))

    def forward(self, features: Tensor) -> Tensor:
        *others, last = self.children()
        known = [features]
        for conv in others:
            known.append(_bent(conv(torch.cat(known, 1))))
        made: Tensor = last(torch.cat(known, 1))
        return made * RESIDUAL + features


def _conv(given: int, made: int) -> nn.Conv2d:
    return nn.Conv2d(given, made, 3, padding=1)


def _bent(features: Tensor) -> Tensor:
    return functional.leaky_relu(features, SLOPE)


def _mirrored(pictures: Tensor, multiple: int) -> Tensor:
    down, right = (-side % multiple for side in pictures.shape[-2:])
    if not (down or right):
        return pictures
    return functional.pad(pictures, (0, right, 0, down), "reflect")
