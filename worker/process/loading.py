"""Load models for one worker, with a shared LoRA cache and activation cache."""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.lora.bounds import read_bounds
from catalog.lora.names import Shapes
from catalog.weights import fingerprint
from core.job import Job, JobRequest
from core.model import Model
from core.settings import Settings
from core.traits import image_key
from worker.control.offers import Offer
from worker.diffusion.runner import AnyRunner
from worker.families.load import load
from worker.lora.loader import LoraLoader
from worker.process.shared_recordings import SharedRecordings
from worker.trials.device_defaults import settled

if TYPE_CHECKING:
    from worker.control.client.remote import RemoteControlNets
    from worker.lora.cache import LoraCache
    from worker.parallel.second_rank import SecondRank
    from worker.pipeline.overlays import Overlays


class Loading:
    """Loads the models of one worker. `prefetch` may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        offer: Callable[[Offer], object] | None = None,
        takes_latents: Callable[[], bool] = lambda: True,
        offloads: Callable[[Model], bool] = lambda model: False,
        on_weights: Callable[[Model, str], object] = lambda model, weights: None,
    ) -> None:
        """Prepare; `offer` puts sessions where ControlNet workers find them, if there are any.

        `takes_latents`: somebody has a use for what images leave behind; `offloads`: text encoders
        of a model stay on the host; `on_weights` hears the fingerprint of each that is loaded.
        """
        self._settings = settings = settled(settings)
        self._offer = offer
        self._takes_latents = takes_latents
        self._offloads = offloads
        self._on_weights = on_weights
        self._second_ranks: dict[str, "SecondRank"] = {}  #: by model
        self._controlnets: "RemoteControlNets | None" = None  #: made with the first to be steered
        self._loader: LoraLoader | None = None  #: made with the first model that takes LoRAs
        self._loras: "LoraCache | None" = None
        self._shapes: dict[str, Shapes] = {}  #: layers of the models that take LoRAs
        self.recordings = SharedRecordings(settings)
        self._identities: dict[str, str] = {}  #: of models: weights, precision, how they compute

    def load(self, model: Model) -> AnyRunner:
        """Load a model; a family that does without torch does not pay for importing it."""
        settings = self._settings
        folder = settings.models_dir / model.name
        weights = fingerprint(folder)
        self._on_weights(model, weights)
        precision = model.dtype or settings.dtype
        self._identities[model.name] = f"{weights} {precision} {settings.crop_convolutions}"
        runner = load(
            folder,
            model,
            device=settings.device,
            dtype=settings.dtype,
            offloads=self._offloads(model),
        )
        if "torch" in sys.modules:
            from worker.diffusion.device import use_host

            use_host(settings.torch_threads)
        overlays = getattr(runner, "overlays", None)
        if overlays is not None:
            self._allow(overlays, model, weights)
        if settings.second_device and hasattr(runner, "share"):
            runner.share(self._second_rank(model, folder))
        if hasattr(runner, "warm_up"):
            runner.warm_up()  # as it serves: what is allowed may change its blocks
        return runner

    def identify(self, job: Job) -> str:
        """Name all that decides what a job's images are on their way, but for their number.

        Of two workers that say the same one goes on where the other stood.
        """
        told = f"{self._identities.get(job.request.model, '')} {job.placement.level} {diffusers()}"
        return hashlib.sha256(told.encode() + image_key(job.request)).hexdigest()

    def prefetch(self, request: JobRequest) -> None:
        """Have at hand the LoRAs of a request, and what an edit reuses: it will come soon."""
        if request.loras and self._loras is not None and request.model in self._shapes:
            self._loras.ask(request, self._shapes[request.model])
        self.recordings.prefetch(request)

    def give_back(self) -> None:
        """Return the memory that nobody holds any more; without torch it is next to nothing."""
        if "torch" in sys.modules:
            from worker.diffusion.device import give_memory_back, parse_device

            give_memory_back(parse_device(self._settings.device))

    def close(self) -> None:
        """Load no more LoRAs, put nothing more away, and end what was started for it."""
        for second_rank in self._second_ranks.values():
            second_rank.close()
        if self._loader is not None:
            self._loader.close()
        self.recordings.close()
        if self._controlnets is not None:
            self._controlnets.close()

    def _allow(self, overlays: "Overlays", model: Model, weights: str) -> None:
        """Let images of a model have what the settings say."""
        settings = self._settings
        if self._offer is not None:
            from worker.control.stale import Stale

            overlays.steer(self._remote(self._offer), Stale(settings.control_stale))
        if settings.latents_gib:
            overlays.lend(self._takes_latents, weights=weights)
        overlays.show(settings.ip_adapters_dir)
        self._shapes[model.name] = overlays.use_loras(self._shelf())
        self.recordings.allow(overlays, model, weights)

    def _second_rank(self, model: Model, folder: Path) -> "SecondRank":
        """Start a second rank for a model, and wait for it: steps are timed with it."""
        from worker.parallel.rank_process import RankSpec
        from worker.parallel.second_rank import SecondRank

        settings = self._settings
        spec = RankSpec(
            load=load,
            folder=folder,
            model=model,
            device=settings.second_device,
            dtype=settings.dtype,
            threads=settings.torch_threads,
        )
        second_rank = SecondRank(spec, settings.device)
        second_rank.start()
        self._second_ranks[model.name] = second_rank
        return second_rank

    def _remote(self, offer: Callable[[Offer], object]) -> "RemoteControlNets":
        if self._controlnets is None:
            from worker.control.client.remote import RemoteControlNets

            self._controlnets = RemoteControlNets(
                offer,
                arena_bytes=self._settings.control_shared_mib * 2**20,
                patience_s=self._settings.control_patience_s,
                host=self._settings.control_host,
            )
        return self._controlnets

    def _shelf(self) -> "LoraCache":
        if self._loras is None:
            from worker.lora.cache import LoraCache

            self._loader = LoraLoader(self._settings)
            budget = int(self._settings.loras_gib * 2**30)
            bounds = read_bounds(self._settings.profile_path)
            self._loras = LoraCache(self._loader, budget, bounds)
        return self._loras


@cache
def diffusers() -> str:
    """Name the version of what samplers and models are made of."""
    return version("diffusers")
