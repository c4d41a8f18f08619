"""Stock pipeline on its device: encode prompts, prepare latents, decode images.

Prompts are encoded, noise is drawn, templates are put on a canvas, and latents decoded, by the
stock pipeline's own methods.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from catalog.lora.names import TEXT_ENCODERS
from core.errors import EngineError
from core.job import JobRequest
from core.model import Model
from worker.diffusion.device import (
    give_memory_back,
    on_side_stream,
    order_channels,
    parse_device,
    parse_dtype,
    to_device,
)
from worker.diffusion.edit import BeginEdit, Canvas, begin_latents, open_canvas
from worker.diffusion.forward_context import HookedModel
from worker.diffusion.img2img import BeginFrom, begin_from, latents_of
from worker.diffusion.kernels.fused_layers import fuse
from worker.diffusion.loading.pipelines import load_pipeline
from worker.diffusion.runner import EditInputs, InitInputs, JobInputs, Pixels
from worker.diffusion.samplers.sampler import Sampler, Samplers
from worker.diffusion.slices import give_way_in
from worker.diffusion.stock import (
    Module,
    Pipe,
    from_images,
    inpainting,
    tiling,
    unhook,
)
from worker.pipeline.architecture import Architecture
from worker.pipeline.overlays import Overlays
from worker.pipeline.prompt_encoder import PromptEncoder
from worker.pipeline.sample import UNetSample

R = TypeVar("R", bound="ResidentPipeline")


class ResidentPipeline(PromptEncoder):
    """One stock pipeline on its device. Families say how prompts go in and images come out."""

    pipeline_class = ""  #: of diffusers
    architecture: Architecture  #: of what is called at every step
    begin_latents: BeginEdit = staticmethod(begin_latents)  #: of an edit
    begin_from: BeginFrom = staticmethod(begin_from)  #: of an image from an image

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.model = model
        self.pipe = pipe
        self.unet: Module = getattr(pipe, self.architecture.part)
        self.device = device
        self.dtype = dtype
        #: What calls of the model and of its decoder are told, to run by kernels of a device.
        self.by_kernels = fuse(device, *filter(None, (self.unet, pipe.vae)))
        self.samplers = Samplers(pipe.scheduler, model.samplers)
        self.overlays = Overlays(model.name, pipe, self.architecture)
        self._inpainting: Pipe | None = None  #: the same parts, for edits; built for the first
        self._img2img: Pipe | None = None  #: likewise, for images from images
        if pipe.vae is not None:  # the second rank of a worker has none
            give_way_in(pipe.vae)

    @property
    def decodes_freely(self) -> bool:
        """Say whether `decode` may compute beside steps: they take one core of the host."""
        return self.device.type == "cpu" and torch.get_num_threads() == 1

    @classmethod
    def load(
        cls: type[R],
        folder: Path,
        model: Model,
        *,
        device: str,
        dtype: str,
        only_predicts: bool = False,
        offloads: bool = False,
    ) -> R:
        """Load the folder of a stock pipeline, or what predicts in it alone. Raises: BadWeights.

        `offloads`: its text encoders stay on the host, and read on the device layer by layer.
        """
        target, precision = parse_device(device), parse_dtype(dtype)
        part = cls.architecture.part
        only = part if only_predicts else None
        with on_side_stream(target):
            pipe = load_pipeline(
                folder,
                cls.pipeline_class,
                precision,
                device=target,
                only=only,
                on_host=TEXT_ENCODERS if offloads else (),
            )
            order_channels(target, *filter(None, (getattr(pipe, part), pipe.vae)))
            runner = cls(model, pipe, device=target, dtype=precision)
        if offloads:
            runner.offload()
        return runner

    @torch.inference_mode()
    def image(self, sample: UNetSample) -> Tensor:
        """Decode the final latent. Shapes: [H, W, 3] in [0, 1], float32, on the device.

        Raises: EngineError if it is not finite.
        """
        if not torch.isfinite(sample.latents).all():
            raise EngineError("the latent is not finite after its last step: no image")
        height, width = sample.latents.shape[-2:]
        with self._coding(height * width * self.pipe.vae_scale_factor**2):
            decoded = self.decode_latents(sample.latents)
        if not torch.isfinite(decoded).all():
            raise EngineError("the decoder made values that are not finite: no image")
        image: Tensor = self.pipe.image_processor.postprocess(decoded, output_type="pt")[0]
        return image.permute(1, 2, 0).float()

    @torch.inference_mode()
    def decode(self, sample: UNetSample) -> Pixels:
        """Decode a finished latent into pixels. Shapes: [H, W, 3]."""
        pixels: Pixels = (self.image(sample) * 255).round().to(torch.uint8).cpu().numpy()
        return pixels

    def trim(self) -> None:
        """Give cached device memory back."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Wait for the device, then let go of the model and its memory."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.overlays.close()
        for hooked in filter(None, (self.unet, self.pipe.vae)):
            unhook(hooked)
        self.pipe = self.unet = self._inpainting = self._img2img = None
        self.prompts.clear()
        give_memory_back(self.device)

    # for families

    def schedule(self, request: JobRequest) -> Mapping[str, object]:
        """Say what a sampler is told of its schedule beside the number of steps."""
        return {"sigmas": list(request.sigmas)} if request.sigmas else {}

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Shapes: [1, C, h, w] -> [1, 3, H, W] in [-1, 1]."""
        raise NotImplementedError

    def open_canvas(
        self, inputs: EditInputs, sampler: Sampler, generator: torch.Generator
    ) -> tuple[Tensor, Canvas]:
        """Begin an edit. Shapes: latents [1, C, h, w]."""
        if self._inpainting is None:
            self._inpainting = inpainting(self.pipe)
        return open_canvas(self._inpainting, inputs, sampler, generator, self.begin_latents)

    def latents_of(
        self, inputs: InitInputs, sampler: Sampler, generator: torch.Generator
    ) -> Tensor:
        """Begin an image from an image. Shapes: [1, C, h, w]."""
        if self._img2img is None:
            self._img2img = from_images(self.pipe)
        return latents_of(self._img2img, inputs, sampler, generator, self.begin_from)

    # for runners

    def first_latents(
        self,
        request: JobRequest,
        brought: JobInputs | None,
        sampler: Sampler,
        generator: torch.Generator,
    ) -> tuple[Tensor, Canvas | None]:
        """Begin an image, with a canvas if it is an edit. Shapes: latents [1, C, h, w]."""
        if not isinstance(brought, EditInputs | InitInputs):
            return self._draw(request, generator) * sampler.noise_level, None
        with self._coding(request.height * request.width):
            if isinstance(brought, EditInputs):
                return self.open_canvas(brought, sampler, generator)
            return self.latents_of(brought, sampler, generator), None

    def embed_guidance(self, guidance: float, rows: int) -> Tensor | None:
        """Embed the guidance where the model takes it so. Shapes: [rows, E]."""
        size = self._guidance_width
        if size is None:
            return None
        scale = torch.tensor([guidance - 1], dtype=torch.float32)
        embedding: Tensor = self.pipe.get_guidance_scale_embedding(scale, embedding_dim=size)
        return to_device(embedding.to(self.dtype), self.device).expand(rows, -1)

    @contextmanager
    def _coding(self, pixels: int) -> Iterator[None]:
        """Have pictures of so many pixels encoded and decoded; for `with`."""
        vae = self.pipe.vae
        with tiling(vae, pixels), HookedModel.of(vae).running(self.by_kernels):
            yield

    def _draw(self, request: JobRequest, generator: torch.Generator) -> Tensor:
        """Draw noise on the host, so that a seed means the same on every device."""
        factor = self.pipe.vae_scale_factor
        channels = self.pipe.vae.config.latent_channels
        shape = (1, channels, request.height // factor, request.width // factor)
        return to_device(torch.randn(shape, generator=generator, dtype=self.dtype), self.device)
