"""Runner of all families with a model: rows of many images packed into one call.

Calls as UNets are called; a transformer (`sd3`) says how it is called otherwise.

Host and device: schedulers index on the host; per step, one vector of timesteps goes to the
device from pinned memory and nothing comes back, so the host runs ahead by one step (`DevicePace`).
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from core.job import JobRequest
from core.levels.approximation import EXACT, Approximation
from core.model import Model
from worker.diffusion.device import DevicePace, to_device
from worker.diffusion.forward_context import NOTHING, ForwardContext, HookedModel
from worker.diffusion.kernels.fused_layers import unfuse
from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.runner import Borrowed, JobInputs, Pixels, WordInputs, is_out_of_memory
from worker.diffusion.snapshot import go_on
from worker.diffusion.stock import Pipe
from worker.lora.mix import PLAIN, Mix
from worker.parallel.second_rank import SecondRank
from worker.parallel.split_call import Halving
from worker.pipeline import resuming
from worker.pipeline.compiled_blocks import Backend, Regions
from worker.pipeline.packing import Packed, Packing, calls, pad
from worker.pipeline.passes import pass_of, plain_pass
from worker.pipeline.preview import Glance, encode, fit, paint
from worker.pipeline.resident import ResidentPipeline
from worker.pipeline.sample import UNetSample
from worker.pipeline.step_graphs import MOST_CELLS, Pass, cells, graphs_on
from worker.trials.timing import request_of


class DiffusionRunner(ResidentPipeline):
    """One resident pipeline, called at every step for the rows of all its images."""

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(model, pipe, device=device, dtype=dtype)
        self.packing = Packing()
        self._pace = DevicePace(device)
        self._halving: Halving | None = None
        self._pools: WeakValueDictionary[torch.Size, LatentPool] = (
            WeakValueDictionary()
        )  #: by shape
        self._colours: Tensor | None = None  #: of latents, fitted for the first preview
        self.regions: Regions | None = None  #: the blocks of a compiled model
        self.graphs = graphs_on(device)  #: of passes of few rows, on a GPU

    def share(self, second_rank: SecondRank) -> None:
        """Have a second rank compute half of the rows of later calls."""
        self.overlays.halve()
        self._halving = Halving(second_rank, self.overlays, self.packing, self.compute)

    def compile(
        self,
        buckets: Sequence[int] = (1, 2, 4, 8, 16),
        *,
        backend: Backend = "inductor",
    ) -> None:
        """Compile the model, for batches of these sizes only; each compiles at its first use.

        Before masks and ControlNets are allowed: what they do lies around what is compiled.
        """
        self.packing.buckets = tuple(sorted(buckets))
        unfuse(self.unet)
        self.regions = Regions(self.unet, self.architecture.compiled, backend=backend)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Make all graphs of a compiled model for pictures of its own size, as far as they fit.

        The first batch of each size would wait for them, and all images in it.
        """
        if self.regions is None:
            return
        sample = self.begin(request_of(self.model, self.model.default_guidance), 0, None, PLAIN)
        latents, row = self.packing.rows([sample]).inputs()[:1], Packed.of((sample,)).take([0])
        try:
            for rows in self.packing.buckets:
                for _ in range(2 if self.graphs else 1):  # the second time it is captured
                    self.compute(latents, [sample.sampler.time], row.padded(rows))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self.trim()

    def open(self, request: JobRequest, seed: int, brought: JobInputs | None = None) -> UNetSample:
        shown: Pixels | None = None
        if isinstance(brought, WordInputs):
            self.learned.keep(brought.vectors)
            shown = brought.shown
            brought = brought.rest
        prompt = self.overlays.see(request, shown, is_guided=self.is_guided(request))
        sample = self._open(request, seed, brought)
        if prompt is not None:
            sample.image_prompt = prompt
            sample.group = (*sample.group, prompt.adapter.group)
        return sample

    def _open(self, request: JobRequest, seed: int, brought: JobInputs | None) -> UNetSample:
        awaited = self.overlays.ask(request)
        if awaited is None:
            return self.begin(request, seed, brought, PLAIN)
        if awaited.is_there:
            return self.begin(request, seed, brought, awaited.mix())
        sample = self.begin(request, seed, brought, PLAIN)
        sample.awaited = awaited
        return sample

    @torch.inference_mode()
    def begin(
        self, request: JobRequest, seed: int, brought: JobInputs | None, mix: Mix
    ) -> UNetSample:
        """Open an image that is made with these LoRAs from its first step on."""
        with self.overlays.adapters.reading(mix):
            return self._begin_read(request, seed, brought, mix)

    def _begin_read(
        self, request: JobRequest, seed: int, brought: JobInputs | None, mix: Mix
    ) -> UNetSample:
        overlays, is_guided = self.overlays, self.is_guided(request)
        conditioning = told = self.condition(request, is_guided)
        generator = torch.Generator().manual_seed(seed)
        sampler = self.samplers.open(
            request.scheduler,
            request.steps,
            generator,
            self.schedule(request),
            spacing=request.sigma_spacing,
            eta=request.eta,
        )
        seen = overlays.look(request, brought, generator)  # stock draws its conditions first
        latents, canvas = self.first_latents(request, brought, sampler, generator)
        reached: Approximation = EXACT
        if isinstance(brought, Borrowed):
            latents, reached = go_on(brought, sampler, latents, overlays.weights)
        rows, num_steps = len(conditioning.text), sampler.num_steps - sampler.position
        reuse = overlays.mask(request, seed, canvas, sampler, mix, rows=rows, is_guided=is_guided)
        if reuse and reuse.is_recording:
            conditioning = self.condition_template(request, conditioning, is_guided)
            rows = len(conditioning.text)
        elif canvas is not None and canvas.is_blank:
            latents, num_steps = canvas.template, 0
        num_kept = sampler.stepper.num_kept if sampler.stepper is not None else 0
        trail = overlays.trail(request, seed, sampler, reached)
        return UNetSample(
            group=(tuple(latents.shape[1:]), conditioning.text.shape[1]),
            rows=rows,
            num_steps=num_steps,
            reached=reached,
            left=trail.left if trail else {},
            trail=trail,
            row=self._pool(latents).take(latents, num_kept, sampler.kept),
            canvas=canvas,
            mix=mix,
            reuse=reuse,
            masked=float(canvas.mask.mean()) if canvas and reuse and reuse.feed else 1.0,
            sampler=sampler,
            guidance=request.guidance if is_guided and rows > 1 else None,
            rescale=request.guidance_rescale,
            conditioning=conditioning,
            controls=overlays.control(request, seen, sampler, told, reuse) if num_steps else (),
            time_cond=self.embed_guidance(request.guidance, rows),
        )

    def approximate(self, sample: UNetSample, approximation: Approximation) -> None:
        """No approximation is its own to make: the image is made exactly."""

    @torch.inference_mode()
    def forward(self, samples: Sequence[UNetSample]) -> list[Tensor]:
        """Shapes: each prediction [rows, C, h, w]."""
        self._pace.wait()
        for sample in samples:
            if sample.awaited is not None and sample.awaited.is_there:
                self.adapt(sample, sample.awaited.request, sample.awaited.mix())
        predictions: dict[int, Tensor] = {}
        for alike in self.overlays.adapters.split(samples):
            for together in calls(alike, self.device):
                made = self._predict(together)
                predictions |= {id(s): each for s, each in zip(together, made, strict=True)}
        self._pace.mark()
        return [predictions[id(sample)] for sample in samples]

    def _predict(self, samples: Sequence[UNetSample]) -> tuple[Tensor, ...]:
        packed, inputs = self.packing.pack(samples), self.packing.rows(samples).inputs()
        times = [time for each in samples for time in repeat(each.sampler.time, each.rows)]
        predictions = None
        if self._halving is not None:
            predictions = self._halving.predict(samples, packed, torch.split(inputs, 1), times)
        if predictions is None:
            with self.overlays.applied(samples) as context:
                predictions = self.compute(inputs, times, packed, context)
        return predictions.split_with_sizes([sample.rows for sample in samples])

    def compute(
        self,
        latents: Tensor,
        times: Sequence[float],
        packed: Packed,
        context: ForwardContext = NOTHING,
    ) -> Tensor:
        """Predict for some rows in one call, of which the model's hooks are told the context.

        Shapes: latents [B, C, h, w], times [B] -> [B, C, h, w]
        """
        changed = self.overlays.change_layers(packed.mixes, context, is_shown=packed.is_shown)
        told = torch.from_numpy(np.array(times, dtype=np.float32))
        rows, batch = len(times), len(packed.text)
        padded = pad(latents, batch), to_device(pad(told, batch), self.device)
        asked = self._pass(*padded, packed, context, changed)
        with (
            self.regions.running(changed) if self.regions else nullcontext(NOTHING) as graphs,
            HookedModel.of(self.unet).running(self._kernels_for(padded[0], context, asked)),
            HookedModel.of(self.unet).running(graphs | context),
        ):
            if self.graphs is None or asked is None:
                return self.call(*padded, packed)[:rows]
            return self.graphs.run(asked)[:rows]

    def _kernels_for(
        self, latents: Tensor, context: ForwardContext, asked: Pass | None
    ) -> ForwardContext:
        """Have a call run by kernels if it is replayed, or keeps a device busy.

        They take a host longer than torch's own layers, and what hooks add takes it longer still.
        """
        most = MOST_CELLS if context.is_empty else 2 * MOST_CELLS
        is_replayed = asked is not None and self.graphs is not None and self.graphs.replays(asked)
        return self.by_kernels if is_replayed or cells(latents) > most else NOTHING

    def _pass(
        self,
        latents: Tensor,
        times: Tensor,
        packed: Packed,
        context: ForwardContext,
        changed: Collection[str],
    ) -> Pass | None:
        """Describe a call that can be replayed: by the model's own code, or of an edit alone."""
        if self.graphs is None or cells(latents) > MOST_CELLS:
            return None
        plain = plain_pass(self.call, latents, times, packed)
        if context.is_empty and not changed:
            return plain
        edit = self.overlays.edit_pass(context, changed, self.dtype)
        if edit is None or len(edit.rows) < len(packed.text):
            return None
        return pass_of(edit, plain, HookedModel.of(self.unet))

    @torch.inference_mode()
    def adapt(self, sample: UNetSample, request: JobRequest, mix: Mix) -> None:
        """Make the rest of an image with these LoRAs. An edit takes no more from its template."""
        with self.overlays.adapters.reading(mix):
            sample.conditioning = self.condition(request, self.is_guided(request))
        sample.rows = len(sample.conditioning.text)
        sample.time_cond = self.embed_guidance(request.guidance, sample.rows)
        sample.mix, sample.awaited, sample.reuse = mix, None, None
        self.packing.forget()

    @torch.inference_mode()
    def advance(self, samples: Sequence[UNetSample], predictions: Sequence[Tensor]) -> None:
        first, *others = predictions
        self.packing.rows(samples).step(torch.cat([first, *others]) if others else first)
        for sample in samples:
            sample.note_step()

    @torch.inference_mode()
    def preview(self, sample: UNetSample, request: JobRequest) -> Callable[[], Pixels] | None:
        """Look at its latents after two steps in a row, which tell the image from its noise.

        What a safety checker would withhold is not shown either.
        """
        if getattr(self.pipe, "safety_checker", None) is not None:
            return None
        before, now = sample.glance, Glance.at(sample.latents, sample.sampler)
        if before is None or before.position + 1 != now.position:
            sample.glance = now
            return None
        if self._colours is None:
            self._colours = fit(partial(encode, self.pipe.vae), self.pipe.vae_scale_factor)
        stepper, sample.glance = sample.sampler.stepper, None
        is_straight = stepper is not None and not stepper.is_stochastic
        return partial(_paint, before, now, is_straight, self._colours, request)

    def state_of(self, sample: UNetSample) -> Callable[[], bytes] | None:
        return resuming.state_of(sample)

    def resume(self, sample: UNetSample, payload: bytes) -> int:
        return resuming.resume(sample, payload)

    def trim(self) -> None:
        self._forget()
        super().trim()

    def close(self) -> None:
        if self._halving is not None:
            self._halving.close()
        self._halving = self.regions = None
        self._forget()
        super().close()

    def _forget(self) -> None:
        self.packing.forget()
        if self.graphs is not None:
            self.graphs.forget()

    def _pool(self, latents: Tensor) -> LatentPool:
        """Find the buffer for images of this shape."""
        shape = latents.shape[1:]
        pool = self._pools.get(shape)
        if pool is None:
            pool = self._pools[shape] = LatentPool(shape, latents.dtype, latents.device)
        return pool

    # for families

    def call(self, latents: Tensor, times: Tensor, packed: Packed) -> Tensor:
        """Shapes: latents [B, C, h, w], times [B] -> [B, C, h, w]"""
        predictions: Tensor = self.unet(
            latents,
            times,
            encoder_hidden_states=packed.text,
            timestep_cond=packed.time_cond,
            added_cond_kwargs=packed.added,
            return_dict=False,
        )[0]
        return predictions


@torch.inference_mode()
def _paint(
    before: Glance, now: Glance, is_straight: bool, colours: Tensor, request: JobRequest
) -> Pixels:
    guess = now.image_after(before, is_straight=is_straight)
    return paint(guess, colours, (request.width, request.height))
