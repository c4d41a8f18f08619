"""Per-image additions to a resident model: LoRAs, masked edits, ControlNets."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from catalog.lora.names import Shapes
from catalog.masking.config import MaskingConfig
from catalog.masking.costs import MaskingCosts
from core.errors import EngineError
from core.job import JobRequest
from core.levels.approximation import Approximation
from core.traits import Use, may
from worker.control.client.steered import Steered
from worker.control.client.steering import Divide, Steering
from worker.control.session import ControlNets
from worker.control.stale import Stale
from worker.diffusion.edit import Canvas
from worker.diffusion.forward_context import NOTHING, ForwardContext
from worker.diffusion.runner import JobInputs, Pixels
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.snapshot import Trail
from worker.diffusion.stock import Module, Pipe
from worker.lora.adapters import Adapters
from worker.lora.cache import Awaited, LoraCache
from worker.lora.mix import Mix
from worker.masking.activations import Activations
from worker.masking.edit_pass import EditPass
from worker.masking.reuse import Masking, Reuse
from worker.pipeline.architecture import Architecture
from worker.pipeline.image_prompts import ImagePrompts
from worker.pipeline.sample import Conditioning, ImagePrompt, UNetSample


class Overlays:
    """What images of one resident model may ask for beside a prompt, as far as it was allowed."""

    def __init__(self, name: str, pipe: Pipe, architecture: Architecture) -> None:
        """Allow nothing yet."""
        self.adapters = Adapters(pipe, architecture.part)
        self._name = name
        self._pipe = pipe
        self._architecture = architecture
        self._model: Module = getattr(pipe, architecture.part)
        self._loras: LoraCache | None = None
        self._masking: Masking | None = None
        self._steering: Steering | None = None
        self._image_prompts: ImagePrompts | None = None
        self._is_halved = False  #: whether a second rank computes half of the rows
        self._is_lending: Callable[[], bool] = lambda: False
        self.weights = ""  #: fingerprint of the model that latents are left by

    def reuse(
        self,
        activations: Activations,
        knobs: MaskingConfig,
        *,
        weights: str = "",
        costs: MaskingCosts | None = None,
    ) -> None:
        """Compute of later edits of a template only what their masks cover.

        `weights` tells the recordings of this model from those of others; `costs` say what is
        worth loading.
        """
        weights = weights or self._name
        cuts = self._architecture.cuts
        masking = Masking(self._model, cuts, activations, knobs, weights=weights, costs=costs)
        self._masking = masking if masking.has_blocks else None

    def use_loras(self, shelf: LoraCache) -> Shapes:
        """Take the LoRAs that images ask for from this shelf; say which layers they may change."""
        self._loras = shelf
        return self.adapters.shapes

    def steer(self, controlnets: ControlNets, stale: Stale = Stale.NEVER) -> None:
        """Let ControlNets steer later images that ask for it, perhaps a step late."""
        how = self._architecture.steerability
        if how is not None:  # the others say so for each image
            self._steering = Steering(self._model, self._pipe, how, controlnets, stale)

    def show(self, folder: Path) -> None:
        """Let later images attend to pictures by the IP-Adapters of a folder."""
        self._image_prompts = ImagePrompts(folder, self._model)

    def loads(self, request: JobRequest) -> Callable[[], object] | None:
        """Give what loads the IP-Adapter of an image, for another thread; None: nothing is to."""
        use, prompts = request.ip_adapter, self._image_prompts
        if use is None or prompts is None or prompts.has(use):
            return None
        return partial(prompts.load, use)

    def see(
        self, request: JobRequest, shown: Pixels | None, *, is_guided: bool
    ) -> ImagePrompt | None:
        """Read what the IP-Adapter of an image shows, if it has one. Raises: EngineError."""
        if request.ip_adapter is None:
            return None
        if self._image_prompts is None:
            raise EngineError(f"model {request.model} is served without IP-Adapters here")
        return self._image_prompts.open(request.ip_adapter, shown, is_guided=is_guided)

    def halve(self) -> None:
        """Have the rows of later images steered apart, as a second rank computes half of them."""
        self._is_halved = True

    def lend(self, is_lending: Callable[[], bool] = lambda: True, *, weights: str = "") -> None:
        """Keep of later images what others can go on from, while `is_lending` says so.

        Images go on from what these weights left, and no others of the same name.
        """
        self._is_lending, self.weights = is_lending, weights

    def ask(self, request: JobRequest) -> Awaited | None:
        """Have the LoRAs of an image loaded. Raises: EngineError if there are none here."""
        if not request.loras:
            return None
        if self._loras is None:
            raise EngineError(f"{self._name} takes no LoRAs here")
        return self._loras.ask(request, self.adapters.shapes)

    def mask(
        self,
        request: JobRequest,
        seed: int,
        canvas: Canvas | None,
        sampler: Sampler,
        mix: Mix,
        *,
        rows: int,
        is_guided: bool,
    ) -> Reuse | None:
        """Say what the rows of an edit reuse; None if they run in full."""
        if self._masking is None or canvas is None:
            return None
        if mix.key != request.adapters:  # its LoRAs are on their way
            return None
        return self._masking.open(request, seed, canvas, sampler, rows, is_guided=is_guided)

    def look(
        self, request: JobRequest, brought: JobInputs | None, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Look at what its ControlNets keep an image to, if it has any. Raises: EngineError."""
        if not request.controls:
            return ()
        if self._steering is None:
            raise EngineError(f"model {request.model} is served without ControlNets here")
        return self._steering.look(request, brought, generator)

    def control(
        self,
        request: JobRequest,
        seen: Sequence[Tensor],
        sampler: Sampler,
        conditioning: Conditioning,
        reuse: Reuse | None = None,
    ) -> tuple[Steered, ...]:
        """Begin the sessions of one image, if it asks for any. Raises: EngineError."""
        if self._steering is None or not seen:
            return ()
        full = reuse.full if reuse is not None and reuse.feed is not None else None
        return self._steering.open(
            request, seen, sampler, conditioning, full, is_halved=self._is_halved
        )

    def change_layers(
        self, mixes: tuple[Mix, ...], context: ForwardContext, *, is_shown: bool
    ) -> frozenset[str]:
        """Give the next call the LoRAs of its rows; name what is not as the model's own code is.

        Layers that add what their rows ask for, or attend to pictures, or blocks that a mask can
        cut.
        """
        adding = self.adapters.apply(mixes)
        if is_shown and self._image_prompts is not None:
            adding |= frozenset(self._image_prompts.layers)
        return adding | self._masking.blocks_of(context) if self._masking else adding

    def edit_pass(
        self, context: ForwardContext, changed: Collection[str], dtype: torch.dtype
    ) -> EditPass | None:
        """Describe a call of one edit alone; None if it is none, or changed by anything else."""
        if self._masking is None or changed != self._masking.blocks:
            return None
        return self._masking.edit_pass(context, dtype)

    def trail(
        self,
        request: JobRequest,
        seed: int,
        sampler: Sampler,
        reached: Approximation,
    ) -> Trail | None:
        """Follow the first image of a job if others can go on from it."""
        if not self._is_lending() or not may(Use.LEND, request) or seed != request.seed:
            return None
        return Trail(sampler, reached, self.weights)

    @contextmanager
    def applied(
        self,
        samples: Sequence[UNetSample],
        rows: Sequence[int] | None = None,
        divide: Divide | None = None,
    ) -> Iterator[ForwardContext]:
        """Say what one call for some samples is told of their masks and ControlNets; for `with`.

        `rows`: numbers of those that are called here, if others are called elsewhere; `divide`
        passes on the residuals of these.
        """
        steered = self._steering.ask(samples, divide, rows) if self._steering else NOTHING
        masking = self._masking.applied(samples, rows) if self._masking else nullcontext(NOTHING)
        prompts = self._image_prompts
        with masking as masked, prompts.applied(samples) if prompts else nullcontext():
            yield steered | masked

    def close(self) -> None:
        """Let go of the model, and load nothing more."""
        if self._masking is not None:
            self._masking.close()
        if self._image_prompts is not None:
            self._image_prompts.close()
        self._pipe = self._model = self._masking = self._steering = self._image_prompts = None
        self.adapters.close()
