"""Let images attend to a picture beside their prompt, by stock's IP-Adapters.

Attention, projections and the image encoder are stock's own. For one call the layers that attend to
the prompt are lent stock's processors; between calls the model is as it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from catalog.ip_adapters import ENCODER, weights_of
from core.errors import BadWeights, ConfigurationError, EngineError, OutOfMemory
from core.uploads.ip_adapter import AppliedIpAdapter
from worker.diffusion.loading.pipelines import load_image_encoder
from worker.diffusion.runner import Pixels, breaks_device, is_out_of_memory
from worker.diffusion.stock import Argument, Module, Pipe
from worker.pipeline.packing import pad
from worker.pipeline.sample import ImagePrompt, UNetSample


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedIpAdapter:
    """One IP-Adapter on a device, for one model."""

    encoder: Module
    prepare: Pipe  #: scales and crops a picture for the encoder
    project: Module  #: what the encoder says of a picture -> tokens
    attentions: Mapping[str, Module]  #: stock's processors, by the layer that attends to prompts

    @torch.inference_mode()
    def read(self, pixels: Pixels, *, is_guided: bool) -> Tensor:
        """Read a picture as stock does, before it nothing where there is guidance.

        Shapes: [H, W, 3] -> [1 or 2, T, D].
        """
        place = next(self.encoder.parameters())
        image = self.prepare(Image.fromarray(pixels), return_tensors="pt").pixel_values.to(place)
        if self._reads_patches:
            seen, unseen = self._patches(image), self._patches(torch.zeros_like(image))
        else:
            seen = self.encoder(image).image_embeds
            unseen = torch.zeros_like(seen)
        tokens: Tensor = self.project(torch.cat([unseen, seen]) if is_guided else seen)
        return tokens

    def _patches(self, image: Tensor) -> Tensor:
        patches: Tensor = self.encoder(image, output_hidden_states=True).hidden_states[-2]
        return patches

    @property
    def _reads_patches(self) -> bool:
        return type(self.project).__name__ != "ImageProjection"


class ImagePrompts:
    """The IP-Adapters of one model, each loaded with the first job that names it."""

    def __init__(self, folder: Path, unet: Module) -> None:
        self._folder = folder
        self._unet = unet
        self._lock = Lock()
        self._loaded: dict[str, LoadedIpAdapter] = {}

    def has(self, adapter: AppliedIpAdapter) -> bool:
        """Tell whether an IP-Adapter is loaded."""
        return adapter.id in self._loaded

    def load(self, adapter: AppliedIpAdapter) -> LoadedIpAdapter:
        """Load an IP-Adapter, once. From any thread.

        Raises: EngineError naming it and what does not fit.
        """
        with self._lock:
            if (loaded := self._loaded.get(adapter.id)) is None:
                loaded = self._loaded[adapter.id] = self._load(adapter.id)
            return loaded

    def open(
        self, adapter: AppliedIpAdapter, shown: Pixels | None, *, is_guided: bool
    ) -> ImagePrompt:
        """Read the picture that one image is shown. Raises: EngineError."""
        if shown is None:
            raise EngineError("the picture of its IP-Adapter is not at hand: send the job again")
        tokens = self.load(adapter).read(shown, is_guided=is_guided)
        return ImagePrompt(adapter=adapter, tokens=tokens)

    @property
    def layers(self) -> list[str]:
        """Name the layers that attend to the prompt, in the order of the files."""
        names = (name.removesuffix(".processor") for name in self._unet.attn_processors)
        return [name for name in names if not name.endswith("attn1")]

    @contextmanager
    def applied(self, samples: Sequence[UNetSample]) -> Iterator[None]:
        """Let the rows of a call attend to their pictures; all have one, and one scale; for `with`.

        A call of which nobody is shown a picture is left alone.
        """
        prompts = [each.image_prompt for each in samples if each.image_prompt is not None]
        lent = self._lent(prompts, len(samples)) if prompts else {}
        layers = {self._unet.get_submodule(name): each for name, each in lent.items()}
        before = {layer: layer.processor for layer in layers}
        try:
            for layer, attention in layers.items():
                layer.processor = attention
            yield
        finally:
            for layer, processor in before.items():
                layer.processor = processor

    def _lent(self, prompts: Sequence[ImagePrompt], expected: int) -> dict[str, "_Shown"]:
        """Make the processors of one call. Raises: EngineError if it should have been several."""
        adapter = prompts[0].adapter
        groups = {each.adapter.group for each in prompts}
        if len(prompts) != expected or len(groups) != 1:
            raise EngineError("images of different IP-Adapters met in one call")
        tokens = torch.cat([each.tokens for each in prompts])
        own = self.load(adapter).attentions
        return {name: _Shown(each, tokens, adapter.scale) for name, each in own.items()}

    def close(self) -> None:
        """Let go of all that was loaded."""
        with self._lock:
            self._loaded.clear()
            self._unet = None

    def _load(self, name: str) -> LoadedIpAdapter:
        try:
            return self._read(self._folder / name)
        except (BadWeights, ConfigurationError, OSError, KeyError, RuntimeError) as error:
            if breaks_device(error):
                raise
            if is_out_of_memory(error):  # no fault of the files
                raise OutOfMemory(f"IP-Adapter {name}: not enough memory for it") from None
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise EngineError(
                f"IP-Adapter {name} cannot be used with this model: {line}"
            ) from error

    def _read(self, folder: Path) -> LoadedIpAdapter:
        """Read a folder by stock's own conversions, which change nothing of the model."""
        unet, names = self._unet, self.layers
        project, attend = _parts_of(load_file(weights_of(folder)))
        _check_count(attend, names)  # before gigabytes go to the device for nothing
        encoder, prepare = load_image_encoder(folder / ENCODER, unet.dtype, unet.device)
        parts = {"image_proj": project, "ip_adapter": attend}
        made = unet._convert_ip_adapter_attn_to_diffusers([parts], low_cpu_mem_usage=False)
        of_pictures = unet._convert_ip_adapter_image_proj_to_diffusers(
            project, low_cpu_mem_usage=False
        )
        attentions = {name: made[f"{name}.processor"] for name in names}
        for module in (of_pictures, *attentions.values()):
            module.to(unet.device, unet.dtype).eval().requires_grad_(False)
        return LoadedIpAdapter(
            encoder=encoder, prepare=prepare, project=of_pictures, attentions=attentions
        )


class _Shown:
    """Stock's attention to prompt and picture, in one layer for one call."""

    def __init__(self, stock: Module, tokens: Tensor, scale: float) -> None:
        """Prepare. Shapes: tokens [rows, T, D]."""
        self._stock = stock
        self._tokens = tokens
        self._scale = scale

    def __call__(
        self,
        attn: Module,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
    ) -> Argument:
        tokens = pad(self._tokens, len(hidden_states))
        self._stock.scale = [self._scale]
        told = (encoder_hidden_states, [tokens])
        return self._stock(attn, hidden_states, told, attention_mask, temb)


def _parts_of(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Part a file into the projection of pictures and the attention to them."""
    parts: dict[str, dict[str, Tensor]] = {"image_proj": {}, "ip_adapter": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part not in parts:
            raise BadWeights(f"{name} is of no IP-Adapter")
        parts[part][rest] = tensor
    return parts["image_proj"], parts["ip_adapter"]


def _check_count(attend: Mapping[str, Tensor], layers: Sequence[str]) -> None:
    count = sum(name.endswith(".to_k_ip.weight") for name in attend)
    if count != len(layers):
        raise BadWeights(f"it attends in {count} layers, and the model in {len(layers)}")
