"""Image-text scorer with PickScore's interface, over any CLIPModel folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor, nn

from worker.diffusion.loading.pipelines import load_clip

Picture = Image | NDArray[np.uint8]

#: A tensor, or an object that holds it.
Output = Any

_T = TypeVar("_T")
_BATCH = 64


class Scorer:
    """A CLIPModel, its tokenizer and its image processor; shapes-scorer and PickScore_v1 alike."""

    def __init__(
        self, folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        """Load from a folder, nothing downloaded.

        Raises: BadWeights naming the file and the reason.
        """
        model, self._tokenizer, self._image_processor = load_clip(folder, dtype)
        self._model: Any = model.to(device)
        self._device = torch.device(device)
        self._dtype = dtype
        self._max_tokens: int = self._model.config.text_config.max_position_embeddings

    @property
    def scale(self) -> float:
        """What cosines are multiplied by."""
        return float(self._model.logit_scale.float().exp())

    def scores(self, prompts: Sequence[str], images: Sequence[Picture]) -> Tensor:
        """Score each image for its prompt: scale times cosine, higher is better.

        Source: Pick-a-Pic (Kirstain et al. 2023), section 3.
        Shapes: N prompts, N images -> [N], single precision, on the host.
        Raises: ValueError if there are not as many prompts as images.
        """
        if len(prompts) != len(images):
            raise ValueError(f"{len(prompts)} prompts for {len(images)} images")
        return self.scale * (self.embed_text(prompts) * self.embed_images(images)).sum(dim=-1)

    def embed_text(self, prompts: Sequence[str]) -> Tensor:
        """Embed prompts; what is too long is cut off.

        Shapes: N -> [N, E], unit length, single precision, on the host.
        """
        return self._joined(self._embedded_text(part) for part in _parts(prompts))

    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Embed images of any size.

        Shapes: N PIL images or [H, W, 3] -> [N, E], unit length, single precision, on the host.
        Units: arrays 0..255.
        """
        return self._joined(self._embedded_images(part) for part in _parts(images))

    @torch.inference_mode()
    def _embedded_text(self, prompts: Sequence[str]) -> Tensor:
        cut = self._tokenizer(
            list(prompts),
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_tensors="pt",
        )
        return _features(self._model.get_text_features(**cut.to(self._device)))

    @torch.inference_mode()
    def _embedded_images(self, images: Sequence[Picture]) -> Tensor:
        pixels = self._image_processor(list(images), return_tensors="pt").pixel_values
        pixels = pixels.to(self._device, self._dtype)
        return _features(self._model.get_image_features(pixel_values=pixels))

    def _joined(self, parts: Iterator[Tensor]) -> Tensor:
        empty = torch.empty(0, int(self._model.config.projection_dim))
        return torch.cat([empty, *(nn.functional.normalize(part, dim=-1) for part in parts)])


def _parts(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (items[at : at + _BATCH] for at in range(0, len(items), _BATCH))


def _features(output: Output) -> Tensor:
    """Take the embedding out of what transformers 5 wraps and transformers 4 does not."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features.float().cpu()
