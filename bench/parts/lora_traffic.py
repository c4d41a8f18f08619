"""Soak traffic: thousands of small images with LoRAs, with faults injected."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import torch
from pydantic import SecretStr
from safetensors.torch import save

from bench.parts.random_lora import CONVOLUTIONS, LINEAR, random_lora
from bench.parts.random_sdxl import TINY, build
from bench.parts.subject import a_job, running
from catalog.lora.names import Shapes
from core.errors import EngineError
from core.job import Job
from core.model import Model
from core.settings import Settings
from core.uploads.lora import AppliedLora
from storage.objects.store import ObjectStore, open_objects
from worker.engine.engine import Engine
from worker.engine.slot import JobImages
from worker.families.sdxl import SdxlRunner
from worker.lora.cache import LoraCache
from worker.lora.loader import LoraLoader

#: LoRAs in the store, and how many of them there is room for in host memory.
KEPT, ROOM = 64, 8
#: Every so many requests the loader's process is killed, a file is gone, a file is damaged.
KILLED, GONE, DAMAGED = 97, 41, 43
#: Requests on their way at the same time.
IN_FLIGHT = 8
SIDE = 32
#: How long one may take on a machine that does other things, too.
PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What this process and its loader hold at one moment."""

    worker: int  #: bytes
    loader: int  #: bytes; of a process that was just started less
    descriptors: int
    mappings: int  #: of LoRAs in the memory of this process

    @classmethod
    def now(cls) -> "Sample":
        me = psutil.Process()
        maps = Path("/proc/self/maps").read_text().splitlines()
        return cls(
            worker=me.memory_info().rss,
            loader=sum(_rss(each) for each in loaders()),
            descriptors=me.num_fds(),
            mappings=sum("memfd:lora" in line for line in maps),
        )


def _rss(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def loaders() -> list[psutil.Process]:
    """Find the processes that load LoRAs."""
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.Error):
            if any("spawn_main" in word for word in each.cmdline()):
                found.append(each)
    return found


def put_loras(objects: ObjectStore, shapes: Shapes) -> list[AppliedLora]:
    """Keep LoRAs of several sizes in the store."""
    uses = []
    for at in range(KEPT):
        ends = LINEAR if at % 2 else LINEAR + CONVOLUTIONS
        lora = random_lora(f"lora-{at}", shapes, ends, rank=2 + at % 4, seed=at)
        tensors = {}
        for layer, product in lora.products.items():
            tensors[f"{layer}.lora_A.weight"] = product.down
            sides = [1] * (product.down.ndim - 2)
            tensors[f"{layer}.lora_B.weight"] = product.up.reshape(*product.up.shape, *sides)
        data = save(tensors)
        objects.put(f"loras/{at}.safetensors", data, "application/octet-stream")
        uses.append(
            AppliedLora(
                id=lora.id,
                key=f"loras/{at}.safetensors",
                models=("tiny",),
                bound=25 * (at % 2),
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
            )
        )
    return uses


def jobs(model: Model, uses: Sequence[AppliedLora], count: int) -> Iterator[tuple[Job, str | None]]:
    """Ask for images with one or two LoRAs each; say why some cannot be made."""
    draw = random.Random(0)
    for at in range(1, count + 1):
        chosen, reason = draw.sample(uses, draw.choice((1, 1, 2))), None
        if at % GONE == 0:
            chosen[0] = replace(chosen[0], id=f"gone-{at}", key="loras/gone")
            reason = "is gone from the store"
        elif at % DAMAGED == 0:
            chosen[0] = replace(chosen[0], id=f"damaged-{at}", sha256="0" * 64)
            reason = "is damaged in the store"
        job = a_job(model, at, steps=2)
        yield replace(job, request=replace(job.request, loras=tuple(chosen))), reason


def soak(
    engine: Engine, asked: Iterator[tuple[Job, str | None]], every: int
) -> tuple[int, list[Sample]]:
    """Make all, killing the loader now and then; count those that did not end as they must."""
    flying: list[tuple[Future[JobImages], str | None]] = []
    wrong, samples = 0, []
    for at, (job, reason) in enumerate(asked, start=1):
        if len(flying) == IN_FLIGHT:
            wrong += not ends_so(*flying.pop(0))
        flying.append((engine.add(job, None), reason))
        if at % KILLED == 0:
            for each in loaders():
                each.kill()
        if at % every == 0:
            samples.append(Sample.now())
    return wrong + sum(not ends_so(*each) for each in flying), samples


def ends_so(made: "Future[JobImages]", reason: str | None) -> bool:
    """Wait for one, and tell whether it has an image, or failed for this reason."""
    try:
        return len(made.result(PATIENCE_S).images) == 1 and reason is None
    except EngineError as error:
        return reason is not None and reason in str(error)


def run(count: int) -> tuple[int, list[Sample]]:
    """Make so many images; count those that did not end as they must, and sample what is held."""
    torch.set_num_threads(1)
    model = Model(name="tiny", family="sdxl", default_size=SIDE, min_size=SIDE, max_size=SIDE)
    pipe = build(TINY, device="cpu", dtype=torch.float32)
    runner = SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
    with TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), url_secret=SecretStr("bench"))
        uses = put_loras(open_objects(settings), runner.overlays.adapters.shapes)
        loader = LoraLoader(settings)
        room = ROOM * max(use.size_bytes for use in uses)
        runner.overlays.use_loras(LoraCache(loader, room))
        with running(runner) as engine:
            made = soak(engine, jobs(model, uses, count), every=count // 100)
        loader.close()
    return made
