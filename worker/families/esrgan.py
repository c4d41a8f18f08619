"""Family of ESRGAN's upscalers: a picture is enlarged a window at a time, each a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from catalog.description.tensors import read_tensors
from catalog.description.upscaler import read_upscaler
from catalog.description.upscaler_folder import weights_of
from core.errors import BadWeights, EngineError, ModelRefused
from core.job import JobRequest
from core.levels.approximation import Approximation
from core.model import Model
from core.request.upscale import Window, side_of, windows_of
from worker.diffusion.device import as_tensor, give_memory_back, parse_device, parse_dtype
from worker.diffusion.runner import InitInputs, JobInputs, Pixels, Sample
from worker.upscaling.rrdb_net import RRDBNet

#: bfloat16 has eight bits of a number, as many as a pixel: its errors would show.
_WHOLE_ENOUGH = {"bfloat16": "float32"}


@dataclass(slots=True, kw_only=True, eq=False)
class UpscaleSample(Sample):
    """A picture that is enlarged."""

    picture: Pixels
    windows: tuple[Window, ...]
    made: Pixels  #: what there is of it, [scale H, scale W, 3]
    step: int = 0  #: windows done

    @property
    def window(self) -> Window:
        """The one that is next; trials go round."""
        return self.windows[self.step % len(self.windows)]


class EsrganRunner:
    """An RRDBNet on a device."""

    family = "esrgan"
    decodes_freely = False

    def __init__(self, model: Model, net: RRDBNet, device: torch.device) -> None:
        self.model = model
        self.device = device
        self._net = net
        self._dtype = net.conv_first.weight.dtype

    @classmethod
    def load(
        cls, folder: Path, model: Model, *, device: str, dtype: str, only_predicts: bool = False
    ) -> "EsrganRunner":
        """Load the one file of weights. Raises: BadWeights."""
        del only_predicts
        place = parse_device(device)
        precision = parse_dtype(_WHOLE_ENOUGH.get(dtype, dtype))
        try:
            file = weights_of(folder)
            found = read_upscaler(read_tensors([file]).by_name)
            weights = load_file(file)
        except (ModelRefused, OSError, SafetensorError) as error:
            raise BadWeights(f"{folder.name}: {error}") from error
        with torch.device("meta"):
            net = RRDBNet(found)
        own = {found.names[name]: each.to(place, precision) for name, each in weights.items()}
        net.load_state_dict(own, assign=True)
        return cls(model, net.requires_grad_(False).eval(), place)

    def open(
        self, request: JobRequest, seed: int, brought: JobInputs | None = None
    ) -> UpscaleSample:
        """Take a picture; trials bring none, and have a black one enlarged."""
        del seed
        height, width, scale = request.height, request.width, self.model.scale
        picture = np.zeros((height, width, 3), np.uint8)
        if isinstance(brought, InitInputs):
            picture = brought.image
        elif request.upscale is not None:
            raise EngineError("the picture of this job was not read: send it again")
        windows = windows_of(width, height)
        return UpscaleSample(
            group=(side_of(height), side_of(width)),
            rows=1,
            num_steps=len(windows),
            picture=picture,
            windows=windows,
            made=np.zeros((height * scale, width * scale, 3), np.uint8),
        )

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        """There is no prompt."""

    def approximate(self, sample: UpscaleSample, approximation: Approximation) -> None:
        """There is nothing to leave out."""

    def forward(self, samples: Sequence[UpscaleSample]) -> list[Pixels]:
        """Enlarge the next window of each. Raises: EngineError if one is not finite."""
        made = self.enlarged(torch.stack([_read(sample) for sample in samples]))
        if not bool(made.isfinite().all()):
            raise EngineError("the enlarged picture is not finite: use another model or precision")
        pixels = (made.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
        return list(pixels.cpu().numpy())

    @torch.inference_mode()
    def enlarged(self, pictures: Tensor) -> Tensor:
        """Run the network. Shapes: [N, 3, H, W] in [0, 1] -> [N, 3, scale H, scale W]."""
        made: Tensor = self._net(pictures.to(self.device, self._dtype))
        return made.float()

    def advance(self, samples: Sequence[UpscaleSample], predictions: Sequence[Pixels]) -> None:
        for sample, pixels in zip(samples, predictions, strict=True):
            _write(sample, pixels, self.model.scale)
            sample.step += 1

    def state_of(self, sample: UpscaleSample) -> Callable[[], bytes] | None:
        """A picture that is enlarged begins anew: what there is of it is large."""

    def resume(self, sample: UpscaleSample, payload: bytes) -> int:
        raise EngineError("a picture that is enlarged begins anew")

    def decode(self, sample: UpscaleSample) -> Pixels:
        return sample.made

    def trim(self) -> None:
        give_memory_back(self.device)

    def close(self) -> None:
        """Let go of the network."""
        del self._net
        give_memory_back(self.device)


def _read(sample: UpscaleSample) -> Tensor:
    """Shapes: [3, H, W] in [0, 1]."""
    height, width = sample.group
    assert isinstance(height, int) and isinstance(width, int)
    top, left = sample.window.top, sample.window.left
    part: NDArray[np.uint8] = sample.picture[top : top + height, left : left + width]
    return as_tensor(np.ascontiguousarray(part)).permute(2, 0, 1).float() / 255


def _write(sample: UpscaleSample, pixels: Pixels, scale: int) -> None:
    window = sample.window
    (y, below), (x, beyond) = window.rows, window.columns
    top, left = y - window.top, x - window.left
    sample.made[y * scale : below * scale, x * scale : beyond * scale] = pixels[
        top * scale : (top + below - y) * scale, left * scale : (left + beyond - x) * scale
    ]
