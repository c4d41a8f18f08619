"""Stock pipeline on its device: encode prompts, prepare latents, decode images.

Prompts are encoded, noise is drawn, templates are put on a canvas, and latents decoded, by the
stock pipeline's own methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from catalog.lora.names import TEXT_ENCODERS
from catalog.prompts.syntax import parse, plain
from core.errors import EngineError
from core.job import JobRequest
from core.model import Model
from core.request.prompt_syntax import PromptSyntax
from worker.diffusion.device import (
    give_memory_back,
    on_side_stream,
    order_channels,
    parse_device,
    parse_dtype,
    to_device,
)
from worker.diffusion.edit import BeginEdit, Canvas, begin_latents, open_canvas
from worker.diffusion.img2img import BeginFrom, begin_from, latents_of
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
from worker.lora.mix import PLAIN
from worker.pipeline.architecture import Architecture
from worker.pipeline.overlays import Overlays
from worker.pipeline.prompt_cache import (
    Encoded,
    EncodedPrompts,
    key_of_negative,
    key_of_prompt,
)
from worker.pipeline.sample import Conditioning, UNetSample
from worker.text.learned import LearnedWords, learn
from worker.text.offload import encode_apart, offload
from worker.text.weighted import TextEncoder, read_both

R = TypeVar("R", bound="ResidentPipeline")

#: As what stock takes a negative prompt that is encoded.
_NEGATIVES = ("negative_prompt_embeds", "negative_pooled_prompt_embeds")


class ResidentPipeline:
    """One stock pipeline on its device. Families say how prompts go in and images come out."""

    pipeline_class = ""  #: of diffusers
    architecture: Architecture  #: of what is called at every step
    #: Fields of a request that the stock pipeline's `encode_prompt` is given beside the prompt.
    encoded_fields: tuple[str, ...] = ()
    encoding_parts: tuple[str, ...] = ("text",)  #: of `Encoding`, that it gives of each prompt
    begin_latents: BeginEdit = staticmethod(begin_latents)  #: of an edit
    begin_from: BeginFrom = staticmethod(begin_from)  #: of an image from an image

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.model = model
        self.pipe = pipe
        self.unet: Module = getattr(pipe, self.architecture.part)
        self.device = device
        self.dtype = dtype
        self.samplers = Samplers(pipe.scheduler, model.samplers)
        self.prompts = EncodedPrompts()
        self.learned = LearnedWords()
        self.overlays = Overlays(model.name, pipe, self.architecture)
        self._is_offloaded = False  #: whether text encoders stay on the host
        self._inpainting: Pipe | None = None  #: the same parts, for edits; built for the first
        self._img2img: Pipe | None = None  #: likewise, for images from images
        if pipe.vae is not None:  # the second rank of a worker has none
            give_way_in(pipe.vae)

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
        with tiling(self.pipe.vae, height * width * self.pipe.vae_scale_factor**2):
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
        unhook(self.unet)
        self.pipe = self.unet = self._inpainting = self._img2img = None
        self.prompts.clear()
        give_memory_back(self.device)

    # for families

    def is_guided(self, request: JobRequest) -> bool:
        """Tell whether the prompt is weighed against a negative one, in a row of its own."""
        return request.guidance > 1 and self._guidance_width is None

    def schedule(self, request: JobRequest) -> Mapping[str, object]:
        """Say what a sampler is told of its schedule beside the number of steps."""
        return {"sigmas": list(request.sigmas)} if request.sigmas else {}

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        """Encode the prompt and whatever else goes into every step."""
        raise NotImplementedError

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Shapes: [1, C, h, w] -> [1, 3, H, W] in [-1, 1]."""
        raise NotImplementedError

    def encode(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt, unless it was just encoded."""
        adapters = self.overlays.adapters
        key = key_of_prompt(request, is_guided, adapters.reader)
        if (kept := self.prompts.find(key)) is not None:
            return kept
        with adapters.encoders:  # another thread may be at it: this very prompt, or tokenizing
            encoded = self.prompts.find(key) or self._encode_there(request, is_guided)
        self.prompts.keep(key, encoded)
        return encoded

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        """Give what encodes a prompt, for another thread; None: it is kept, or read with LoRAs.

        With what loads its IP-Adapter, which takes longer than any prompt.
        """
        encodes, loads = self._encoding(request), self.overlays.loads(request)
        if encodes is None or loads is None:
            return encodes or loads
        return lambda: (loads(), encodes())

    def _encoding(self, request: JobRequest) -> Callable[[], object] | None:
        is_guided = self.is_guided(request)
        if request.loras or request.embeddings:  # which an image brings when it is opened
            return None
        if self.prompts.find(key_of_prompt(request, is_guided, PLAIN)):
            return None
        return partial(self._encode_beside, request, is_guided)

    def offload(self) -> None:
        """Have text encoders that are on the host read on the device, layer by layer."""
        parts = (getattr(self.pipe, name, None) for name in TEXT_ENCODERS)
        offload([part for part in parts if part is not None], self.device)
        self._is_offloaded = True

    def _encode_there(self, request: JobRequest, is_guided: bool) -> Encoded:
        encode = partial(self.encode_prompt, request, is_guided)
        return encode_apart(self.device, encode) if self._is_offloaded else encode()

    @torch.inference_mode()
    def _encode_beside(self, request: JobRequest, is_guided: bool) -> None:
        adapters = self.overlays.adapters
        with adapters.encoders, adapters.reading(PLAIN):
            self.encode(request, is_guided)

    def encode_prompt(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt by stock's method, with the negative one if it is kept, or by chunks."""
        if self.reads_itself(request):
            return self._read_words(request, is_guided)
        key = key_of_negative(request, self.overlays.adapters.reader)
        negatives = (self.prompts.find(key) or ()) if is_guided else ()
        encoded: Encoded = self.pipe.encode_prompt(
            prompt=request.prompt,
            device=self.device,
            num_images_per_prompt=1,
            do_classifier_free_guidance=is_guided,
            negative_prompt=request.negative_prompt,
            **{name: getattr(request, name) for name in self.encoded_fields},
            **dict(zip(_NEGATIVES, negatives, strict=False)),
        )
        if is_guided and not negatives:
            self.prompts.keep(key, encoded[1::2])
        return encoded

    def text_encoders(self) -> Sequence[TextEncoder]:
        """List the text encoders of a family that reads weighted prompts."""
        raise NotImplementedError

    @staticmethod
    def reads_itself(request: JobRequest) -> bool:
        """Tell whether prompts have weights, or words that were learned: stock has no such thing.

        It has the latter, by words added for all who share its encoders.
        """
        return request.prompt_syntax is PromptSyntax.WEIGHTED or bool(request.embeddings)

    def _read_words(self, request: JobRequest, is_guided: bool) -> Encoded:
        prompts, negatives = _texts_of(request)
        if negatives is None and not self.pipe.config.get("force_zeros_for_empty_prompt", False):
            negatives = ("", "")
        encoders = self.text_encoders()
        if request.embeddings:
            encoders = [
                replace(each, vocabulary=learn(each.vocabulary.tokenizer, words))
                for at, each in enumerate(encoders)
                for words in [self.learned.of(request.embeddings, at)]
            ]
        parses = parse if request.prompt_syntax is PromptSyntax.WEIGHTED else plain
        told = negatives if is_guided else None
        both = read_both(encoders, prompts, told, request.clip_skip, parses)
        return tuple(getattr(each, part) for part in self.encoding_parts for each in both)

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
        with tiling(self.pipe.vae, request.height * request.width):
            if isinstance(brought, EditInputs):
                return self.open_canvas(brought, sampler, generator)
            if isinstance(brought, InitInputs):
                return self.latents_of(brought, sampler, generator), None
        return self._draw(request, generator) * sampler.noise_level, None

    def condition_template(
        self, request: JobRequest, conditioning: Conditioning, is_guided: bool
    ) -> Conditioning:
        """Add a row for the template, which is told the negative prompt or nothing at all."""
        silent = replace(
            request, prompt="", prompt_2=None, prompt_3=None, negative_prompt=None, clip_skip=None
        )
        told = conditioning if is_guided else self.condition(silent, False)
        if request.edit is not None and request.edit.only_records:
            return told.first_rows()
        return conditioning.with_row(told)

    def embed_guidance(self, guidance: float, rows: int) -> Tensor | None:
        """Embed the guidance where the model takes it so. Shapes: [rows, E]."""
        size = self._guidance_width
        if size is None:
            return None
        scale = torch.tensor([guidance - 1], dtype=torch.float32)
        embedding: Tensor = self.pipe.get_guidance_scale_embedding(scale, embedding_dim=size)
        return to_device(embedding.to(self.dtype), self.device).expand(rows, -1)

    def _draw(self, request: JobRequest, generator: torch.Generator) -> Tensor:
        """Draw noise on the host, so that a seed means the same on every device."""
        factor = self.pipe.vae_scale_factor
        channels = self.pipe.vae.config.latent_channels
        shape = (1, channels, request.height // factor, request.width // factor)
        return to_device(torch.randn(shape, generator=generator, dtype=self.dtype), self.device)

    @property
    def _guidance_width(self) -> int | None:
        """Channels of the guidance embedding, where the model takes one instead of two rows."""
        width: int | None = self.unet.config.get("time_cond_proj_dim")
        return width


def _texts_of(request: JobRequest) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """Say what each text encoder is to read, and what it is to read against that."""
    negative = request.negative_prompt
    prompts = (request.prompt, request.prompt_2 or request.prompt)
    if negative is None:
        return prompts, None
    return prompts, (negative, request.negative_prompt_2 or negative)
