"""What all families with a model share: rows of many images packed into one call.

Written for UNets; a transformer (`sd3`) says which part of the pipeline it is and how it is called.

Host and device: schedulers index on the host; per step, one vector of timesteps goes to the
device from pinned memory and nothing comes back, so the host runs ahead by one step (`Pace`).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from core.errors import EngineError
from core.job import JobRequest
from core.variant import Model
from worker.control.pace import Stale
from worker.control.session import ControlNets
from worker.control.steering import Steering, begin_controls
from worker.device import Pace, on_side_stream, parse_device, parse_dtype, to_device
from worker.edit import Begin, Canvas, begin_latents, open_canvas
from worker.families.packing import Packed, Packing, pad
from worker.families.prompts import Encoded, EncodedPrompts
from worker.families.sample import Conditioning, UNetSample
from worker.lora.adapters import Adapters
from worker.lora.mix import PLAIN, Mix
from worker.lora.names import Shapes
from worker.lora.shelf import LoraShelf
from worker.masking.activations import Activations
from worker.masking.costs import MaskingCosts
from worker.masking.knobs import Knobs
from worker.masking.reuse import Masking
from worker.runner import Borrowed, Brought, Inputs, Pixels
from worker.sampling import Sampler, Samplers
from worker.state import Trail, go_on
from worker.stock import Module, Pipe, inpainting, load_pipeline

R = TypeVar("R", bound="UNetRunner")


class UNetRunner:
    """One resident UNet pipeline. Families say how prompts are encoded and latents unscaled."""

    pipeline_class = ""  #: of diffusers
    part = "unet"  #: of the pipeline: what is called at every step
    #: What else the stock pipeline's `encode_prompt` must be given.
    encode_kwargs: Mapping[str, object] = {}
    begin_latents: Begin = staticmethod(begin_latents)  #: of an edit

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.model = model
        self.pipe = pipe
        self.unet: Module = getattr(pipe, self.part)
        self.device = device
        self.dtype = dtype
        self._samplers = Samplers(pipe.scheduler, model.samplers)
        self.packing = Packing()
        self.prompts = EncodedPrompts()
        self.adapters = Adapters(pipe, self.part)
        self._pace = Pace(device)
        self._loras: LoraShelf | None = None
        self._masking: Masking | None = None
        self._steering: Steering | None = None
        self._is_lending = False
        self._inpainting: Pipe | None = None  #: the same parts, for edits; built for the first

    @classmethod
    def load(cls: type[R], folder: Path, model: Model, *, device: str, dtype: str) -> R:
        """Load the folder of a stock pipeline. Raises: BadWeights."""
        target, precision = parse_device(device), parse_dtype(dtype)
        pipe = load_pipeline(folder, cls.pipeline_class, precision)
        with on_side_stream(target):
            pipe.to(target, dtype=precision)
            if target.type == "cuda":
                getattr(pipe, cls.part).to(memory_format=torch.channels_last)
                pipe.vae.to(memory_format=torch.channels_last)
            runner = cls(model, pipe, device=target, dtype=precision)
        return runner

    def reuse(
        self,
        activations: Activations,
        knobs: Knobs,
        *,
        weights: str = "",
        costs: MaskingCosts | None = None,
    ) -> None:
        """Compute of later edits of a template only what their masks cover.

        `weights` tells the recordings of this model from those of others; `costs` say what is
        worth loading.
        """
        weights = weights or self.model.name
        masking = Masking(self.unet, activations, knobs, weights=weights, costs=costs)
        self._masking = masking if masking.has_blocks else None

    def use_loras(self, shelf: LoraShelf) -> Shapes:
        """Take the LoRAs that images ask for from this shelf; say which layers they may change."""
        self._loras = shelf
        return self.adapters.shapes

    def steer(self, controlnets: ControlNets, stale: Stale = Stale.NEVER) -> None:
        """Let ControlNets steer later images that ask for it, perhaps a step late."""
        if hasattr(self.unet, "up_blocks"):  # those of transformers are made otherwise
            self._steering = Steering(self.unet, controlnets, stale)

    def lend(self) -> None:
        """Keep of later images what others can go on from."""
        self._is_lending = True

    def compile(
        self, buckets: Sequence[int] = (1, 2, 4, 8, 16), *, backend: str = "inductor"
    ) -> None:
        """Compile the model, for batches of these sizes only; each compiles at its first use."""
        self.packing.buckets = tuple(sorted(buckets))
        self.unet = torch.compile(getattr(self.pipe, self.part), dynamic=False, backend=backend)

    def open(self, request: JobRequest, seed: int, brought: Brought | None = None) -> UNetSample:
        if not request.loras:
            return self.begin(request, seed, brought, PLAIN)
        if self._loras is None:
            raise EngineError(f"{self.model.name} takes no LoRAs here")
        awaited = self._loras.ask(request, self.adapters.shapes)
        if awaited.is_there:
            return self.begin(request, seed, brought, awaited.mix())
        sample = self.begin(request, seed, brought, PLAIN)
        sample.awaited = awaited
        return sample

    @torch.inference_mode()
    def begin(
        self, request: JobRequest, seed: int, brought: Brought | None, mix: Mix
    ) -> UNetSample:
        """Open an image that is made with these LoRAs from its first step on."""
        with self.adapters.reading(mix):
            return self._begin_read(request, seed, brought, mix)

    def _begin_read(
        self, request: JobRequest, seed: int, brought: Brought | None, mix: Mix
    ) -> UNetSample:
        is_guided = self.is_guided(request)
        conditioning = self.condition(request, is_guided)
        generator = torch.Generator().manual_seed(seed)
        sampler = self._samplers.open(
            request.scheduler, request.steps, generator, self.schedule(request)
        )
        latents, canvas = self._begin(request, brought, sampler, generator)
        skipped_steps = 0
        if isinstance(brought, Borrowed):
            latents, skipped_steps = go_on(brought, sampler, latents)
        is_plain = canvas is None and not request.controls
        is_lending = self._is_lending and is_plain and seed == request.seed  # the first image
        trail = Trail(sampler, skipped_steps) if is_lending else None
        reuse = None
        if self._masking and canvas:
            rows = len(conditioning.text)
            reuse = self._masking.open(
                request, seed, canvas, sampler, rows, is_guided=is_guided, adapters=mix.key
            )
        if reuse and reuse.is_recording:
            conditioning = self._with_template(request, conditioning, is_guided)
        return UNetSample(
            group=(tuple(latents.shape[1:]), conditioning.text.shape[1]),
            rows=len(conditioning.text),
            num_steps=sampler.num_steps - sampler.position,
            skipped_steps=skipped_steps,
            left=trail.left if trail else {},
            trail=trail,
            latents=latents,
            canvas=canvas,
            mix=mix,
            reuse=reuse,
            masked=float(canvas.mask.mean()) if canvas and reuse and reuse.feed else 1.0,
            sampler=sampler,
            guidance=request.guidance if is_guided and len(conditioning.text) > 1 else None,
            conditioning=conditioning,
            controls=begin_controls(self._steering, request, brought, sampler, conditioning),
            time_cond=self._embed_guidance(request.guidance, len(conditioning.text)),
        )

    @torch.inference_mode()
    def forward(self, samples: Sequence[UNetSample]) -> list[Tensor]:
        """Shapes: each prediction [rows, C, h, w]."""
        self._pace.wait()
        for sample in samples:
            if sample.awaited is not None and sample.awaited.is_there:
                self.adapt(sample, sample.awaited.request, sample.awaited.mix())
        predictions: dict[int, Tensor] = {}
        for together in self.adapters.split(samples):
            made = self._predict(together)
            predictions |= {id(s): each for s, each in zip(together, made, strict=True)}
        self._pace.mark()
        return [predictions[id(sample)] for sample in samples]

    def _predict(self, samples: Sequence[UNetSample]) -> tuple[Tensor, ...]:
        packed = self.packing.pack(samples)
        inputs, times = [], []
        for sample in samples:
            inputs += sample.inputs()
            times += [sample.sampler.time] * sample.rows
        batch = self.packing.bucket(len(times))
        is_eager = self.adapters.apply(samples) and bool(self.packing.buckets)
        with (
            self._masking.applied(samples) if self._masking else nullcontext(),
            torch.compiler.set_stance("force_eager") if is_eager else nullcontext(),
            self._steering.applied(samples) if self._steering else nullcontext(),
        ):
            predictions = self.call(
                pad(torch.cat(inputs), batch),
                to_device(pad(torch.tensor(times, dtype=torch.float32), batch), self.device),
                packed,
            )
        return torch.split(predictions[: len(times)], [sample.rows for sample in samples])

    @torch.inference_mode()
    def adapt(self, sample: UNetSample, request: JobRequest, mix: Mix) -> None:
        """Make the rest of an image with these LoRAs. An edit takes no more from its template."""
        with self.adapters.reading(mix):
            sample.conditioning = self.condition(request, self.is_guided(request))
        sample.rows = len(sample.conditioning.text)
        sample.time_cond = self._embed_guidance(request.guidance, sample.rows)
        sample.mix, sample.awaited, sample.reuse = mix, None, None
        self.packing.forget()

    @torch.inference_mode()
    def advance(self, sample: UNetSample, prediction: Tensor) -> None:
        if sample.guidance is None:
            prediction = prediction[:1]
        else:
            negative, positive = prediction[:2].chunk(2)
            prediction = negative + sample.guidance * (positive - negative)
        latents = sample.sampler.advance(prediction, sample.latents)
        canvas = sample.canvas
        sample.latents = latents if canvas is None else canvas.blend(latents, sample.sampler)
        if sample.trail is not None:
            sample.trail.note(sample.sampler, sample.latents)

    @torch.inference_mode()
    def image(self, sample: UNetSample) -> Tensor:
        """Decode the final latent. Shapes: [H, W, 3] in [0, 1], float32, on the device.

        Raises: EngineError if it is not finite.
        """
        if not torch.isfinite(sample.latents).all():
            raise EngineError("the latent is not finite after its last step: no image")
        decoded = self.decode_latents(sample.latents)
        if not torch.isfinite(decoded).all():
            raise EngineError("the decoder made values that are not finite: no image")
        image: Tensor = self.pipe.image_processor.postprocess(decoded, output_type="pt")[0]
        return image.permute(1, 2, 0).float()

    @torch.inference_mode()
    def decode(self, sample: UNetSample) -> Pixels:
        pixels: Pixels = (self.image(sample) * 255).round().to(torch.uint8).cpu().numpy()
        return pixels

    def trim(self) -> None:
        self.packing.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if self._masking is not None:
            self._masking.close()
        self.pipe = self.unet = self._inpainting = self._masking = self._steering = None
        self.adapters.close()
        self.prompts.clear()
        self.trim()

    # for families

    def is_guided(self, request: JobRequest) -> bool:
        """Tell whether the prompt is weighed against a negative one, in a row of its own."""
        return request.guidance > 1 and self._guidance_width is None

    def schedule(self, request: JobRequest) -> Mapping[str, object]:
        """Say what a sampler is told of its schedule beside the number of steps."""
        del request
        return {}

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        """Encode the prompt and whatever else goes into every step."""
        raise NotImplementedError

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Shapes: [1, C, h, w] -> [1, 3, H, W] in [-1, 1]."""
        raise NotImplementedError

    def encode(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt, unless it was just encoded."""
        key = (request.prompt, request.negative_prompt, is_guided, self.adapters.reader.key)
        return self.prompts.get(key, lambda: self.encode_prompt(request, is_guided))

    def encode_prompt(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt by the stock pipeline's own method."""
        encoded: Encoded = self.pipe.encode_prompt(
            prompt=request.prompt,
            device=self.device,
            num_images_per_prompt=1,
            do_classifier_free_guidance=is_guided,
            negative_prompt=request.negative_prompt,
            **self.encode_kwargs,
        )
        return encoded

    def _with_template(
        self, request: JobRequest, conditioning: Conditioning, is_guided: bool
    ) -> Conditioning:
        """Add a row for the template, which is told the negative prompt or nothing at all."""
        silent = replace(request, prompt="", negative_prompt=None)
        told = conditioning if is_guided else self.condition(silent, False)
        if request.edit is not None and request.edit.only_records:
            return told.first_row()
        return conditioning.with_row(told)

    def _begin(
        self,
        request: JobRequest,
        brought: Brought | None,
        sampler: Sampler,
        generator: torch.Generator,
    ) -> tuple[Tensor, Canvas | None]:
        if isinstance(brought, Inputs):
            return self.open_canvas(brought, sampler, generator)
        return self._draw(request, generator) * sampler.noise_level, None

    def open_canvas(
        self, inputs: Inputs, sampler: Sampler, generator: torch.Generator
    ) -> tuple[Tensor, Canvas]:
        """Begin an edit. Shapes: latents [1, C, h, w]."""
        if self._inpainting is None:
            self._inpainting = inpainting(self.pipe)
        return open_canvas(self._inpainting, inputs, sampler, generator, self.begin_latents)

    def _draw(self, request: JobRequest, generator: torch.Generator) -> Tensor:
        """Draw noise on the host, so that a seed means the same on every device."""
        factor = self.pipe.vae_scale_factor
        channels = self.pipe.vae.config.latent_channels
        shape = (1, channels, request.height // factor, request.width // factor)
        return to_device(torch.randn(shape, generator=generator, dtype=self.dtype), self.device)

    @property
    def _guidance_width(self) -> int | None:
        """Channels of the guidance embedding, where the model takes one instead of two rows."""
        width: int | None = getattr(self.pipe, self.part).config.get("time_cond_proj_dim")
        return width

    def _embed_guidance(self, guidance: float, rows: int) -> Tensor | None:
        size = self._guidance_width
        if size is None:
            return None
        scale = torch.tensor([guidance - 1], dtype=torch.float32)
        embedding: Tensor = self.pipe.get_guidance_scale_embedding(scale, embedding_dim=size)
        return to_device(embedding.to(self.dtype), self.device).expand(rows, -1)

    def call(self, latents: Tensor, times: Tensor, packed: Packed) -> Tensor:
        """Shapes: latents [B, C, h, w], times [B] -> [B, C, h, w]"""
        is_steered = any(sample.controls for sample in packed.samples)
        # What is compiled takes no residuals: ControlNets are waited for between its blocks.
        unet = getattr(self.pipe, self.part) if is_steered else self.unet
        with _many_graphs() if self.packing.buckets else nullcontext():
            predictions: Tensor = unet(
                latents,
                times,
                encoder_hidden_states=packed.text,
                timestep_cond=packed.time_cond,
                added_cond_kwargs=packed.added,
                return_dict=False,
            )[0]
        return predictions


def _many_graphs() -> AbstractContextManager[None]:
    """Allow a graph per bucket and size; torch keeps this setting per thread, and allows 8."""
    patched: AbstractContextManager[None] = torch._dynamo.config.patch(recompile_limit=64)
    return patched
