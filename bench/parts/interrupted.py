"""Models and images of each kind, for benches that interrupt them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bench.parts.subject import Watched, a_job
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, parse
from catalog.masking.config import MaskingConfig
from catalog.models import read_models
from core.job import Edit, Job, Task
from core.uploads.lora import AppliedLora
from worker.diffusion.image_state import ImageState
from worker.diffusion.runner import EditInputs, Pixels
from worker.engine.engine import Engine
from worker.engine.slot import Slot
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.futures import resolved
from worker.lora.cache import LoraCache
from worker.masking.activations import Activations
from worker.pipeline.sample import UNetSample

MODELS = Path("zoo/weights")
LORA = Path("zoo/adapters/loras/night.safetensors")
STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model, and an image of it."""

    runner: DiffusionRunner
    job: Job
    brought: EditInputs | None = None


class Floats(Watched):
    """A runner that keeps the last image it decodes, before it is rounded to pixels."""

    image: NDArray[np.float32]

    def decode(self, sample: UNetSample) -> Pixels:
        self.image = self.runner.image(sample).cpu().numpy()
        return super().decode(sample)


def subjects() -> Iterator[tuple[str, Subject]]:
    """Load each model when its turn comes."""
    yield "UNet", _subject("shapes-xl")
    yield "DiT", _subject("shapes-dit")
    yield "edit", _edit(_subject("shapes-xl"))
    yield "LoRA", _with_lora(_subject("shapes-xl"))


def _subject(name: str) -> Subject:
    model = read_models(MODELS)[name]
    runner = load(MODELS / name, model, device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    return Subject(runner=runner, job=a_job(model, 3, steps=STEPS))


def _edit(subject: Subject) -> Subject:
    """Edit a template that was recorded before, as production does: one step in ten in full."""
    side = subject.job.request.width
    template = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    mask = np.zeros((side, side), np.uint8)
    mask[side // 4 : side // 2, side // 4 : side // 2] = 255
    digest = hashlib.sha256(template.tobytes()).hexdigest()
    edit = Edit(template="t", template_sha256=digest, mask="m")
    request = replace(subject.job.request, task=Task.EDIT, edit=edit)
    subject.runner.overlays.reuse(Activations(2**32), MaskingConfig())
    made = replace(
        subject,
        job=replace(subject.job, request=request),
        brought=EditInputs(template=template, mask=mask, strength=1.0),
    )
    make(made)
    return made


class Reads:
    """Gives a LoRA of a file at once."""

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[torch.Tensor, list[LayerChange]]]":
        del use
        data = LORA.read_bytes()
        return resolved((torch.frombuffer(bytearray(data), dtype=torch.uint8), parse(data, shapes)))


def _with_lora(subject: Subject) -> Subject:
    use = AppliedLora(
        id="night", key="k", models=(subject.job.request.model,), size_bytes=1, sha256="", scale=0.8
    )
    subject.runner.overlays.use_loras(LoraCache(Reads(), 2**30))
    return replace(
        subject, job=replace(subject.job, request=replace(subject.job.request, loras=(use,)))
    )


def make(
    subject: Subject,
    states: Mapping[int, ImageState] | None = None,
    on_step: Callable[[Sequence[Slot], float], object] = lambda batch, step_s: None,
) -> Floats:
    """Make an image, or what is left of it."""
    watched = Floats(subject.runner)
    engine = Engine(max_slots=8, max_rows=16, slo_s=3600.0, on_step=on_step)
    engine.attach(watched)
    future = engine.add(subject.job, None, subject.brought, states or {})
    while not future.done():
        engine.step()
    future.result()
    return watched
