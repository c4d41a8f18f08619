"""Benchmark LoRAs: time to fetch, to apply, and overhead of per-row LoRAs in a batch.

Applying: from a file on disk to weights that have it, against `load_lora_weights` of stock
diffusers on the same file. Rows: a step of a batch whose rows have LoRAs of their own against the
same step without any. Fetching: an image whose LoRA comes once a third of it is made, against the
same image without one. Ratios within one run: of CPU time, where nobody waits.

    python -m bench.lora --quick
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import torch
import typer

from bench.parts.random_lora import CONVOLUTIONS, LINEAR, random_lora
from bench.parts.random_sdxl import MEDIUM, build
from bench.parts.report import Figure, at_most, finish, machine, median, plain
from bench.parts.subject import a_job, running, stock_pipeline
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, parse
from core.job import Job
from core.model import Model
from core.uploads.lora import AppliedLora
from profiling.lora_bounds import read_lora
from worker.diffusion.stock import Pipe
from worker.engine.engine import Engine
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.families.sdxl import SdxlRunner
from worker.lora.cache import LoraCache
from worker.lora.mix import PLAIN, Mix
from worker.pipeline.sample import UNetSample

#: Rows of a batch, each with a LoRA of its own.
ROWS = 8
#: Of these LoRAs: beside a width of 128 to 256 what 16 to 32 is beside SDXL's 640 to 1,280.
RANK = 4
#: Attention where SDXL has it, on latents of a quarter of its tokens: 47 M parameters.
SIZE = replace(MEDIUM, depth=(1, 2, 4), attends=(False, True, True))
SIDE = 128
#: Of an image whose LoRA comes late.
STEPS = 20


def cpu_s(call: Callable[[], object]) -> float:
    """Time a call in CPU seconds."""
    started = time.process_time()
    call()
    return time.process_time() - started


def applying(rounds: int, base: Path, files: Path) -> dict[str, Figure]:
    """Apply every LoRA of a folder to the model it is for, ours and stock in turn."""
    model = msgspec.json.decode((base / "atelier.json").read_bytes(), type=Model)
    runner, other = (load(base, model, device="cpu", dtype="float32") for _ in range(2))
    assert isinstance(runner, DiffusionRunner) and isinstance(other, DiffusionRunner)
    pipe = stock_pipeline(other)
    sample = runner.open(a_job(model, 0, steps=50).request, 0)
    ours: list[float] = []
    stock: list[float] = []
    for file in rounds * sorted(files.glob("*.safetensors")):
        ours.append(cpu_s(partial(apply_ours, runner, sample, file)))
        apply(runner, sample, PLAIN)
        stock.append(cpu_s(partial(apply_stock, pipe, file)))
        pipe.unload_lora_weights()
    gains = [theirs / mine for mine, theirs in zip(ours, stock, strict=True)]
    return {
        "to apply a LoRA, stock": plain(1e3 * median(stock), "ms, CPU time"),
        "to apply a LoRA, ours": plain(1e3 * median(ours), "ms, CPU time"),
        "to apply a LoRA, stock / ours": plain(median(gains), "ratio"),
    }


def apply_ours(runner: DiffusionRunner, sample: UNetSample, file: Path) -> None:
    """Merge a LoRA into a model and its text encoders, from its file."""
    apply(runner, sample, Mix.of([(read_lora(file, runner.overlays.adapters.shapes), 1.0)]))


def apply(runner: DiffusionRunner, sample: UNetSample, mix: Mix) -> None:
    """Have a model's next call be that of an image with these LoRAs, its prompt read with them."""
    with runner.overlays.adapters.reading(mix):
        sample.mix = mix
    runner.overlays.adapters.apply((sample.mix,))


def apply_stock(pipe: Pipe, file: Path) -> None:
    """Do as any user of diffusers does."""
    pipe.load_lora_weights(file.parent, weight_name=file.name, adapter_name=file.stem)


class SlowStore:
    """Gives a LoRA some time after it was asked for; it is read by then, as by a loader process."""

    def __init__(self, delay_s: float, file: Path, shapes: Shapes) -> None:
        self.delay_s = delay_s
        data = bytearray(file.read_bytes())
        self._loaded = torch.frombuffer(data, dtype=torch.uint8), parse(data, shapes)

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[torch.Tensor, list[LayerChange]]]":
        del use, shapes  # there is but one
        answer: Future[tuple[torch.Tensor, list[LayerChange]]] = Future()
        threading.Timer(self.delay_s, answer.set_result, (self._loaded,)).start()
        return answer


def slow_fetches(rounds: int, base: Path, files: Path) -> dict[str, Figure]:
    """Make images whose LoRA takes a third of their time to come, and the same without."""
    model = msgspec.json.decode((base / "atelier.json").read_bytes(), type=Model)
    runner = load(base, model, device="cpu", dtype="float32")
    assert isinstance(runner, DiffusionRunner)
    file = min(files.glob("*.safetensors"))
    ratios, stock = [], []
    with running(runner) as engine:
        for at in range(rounds + 1):
            job = a_job(model, at, steps=STEPS)
            plain_s = wall_s(partial(make, engine, job))
            store = SlowStore(plain_s / 3, file, runner.overlays.adapters.shapes)
            runner.overlays.use_loras(LoraCache(store, 2**30))
            use = AppliedLora(
                id=file.stem, key=str(file), models=(), bound=25, size_bytes=1, sha256=""
            )
            late = a_job(model, rounds + 1 + at, steps=STEPS)  # its prompt is read anew, too
            late = replace(late, request=replace(late.request, loras=(use,)))
            late_s = wall_s(partial(make, engine, late))
            ratios.append(late_s / plain_s)
            stock.append((plain_s + store.delay_s) / plain_s)
    return {
        "image, LoRA fetched for a third of it / none": at_most(
            median(ratios[1:]), 1.05, "ratio, wall"
        ),
        "the same if it waited, as stock does": plain(median(stock[1:]), "ratio, wall"),
    }


def make(engine: Engine, job: Job) -> None:
    """Make the images of a job, alone."""
    engine.add(job, None).result()


def wall_s(call: Callable[[], object]) -> float:
    """Time a call in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def rows_apart(rounds: int) -> dict[str, Figure]:
    """Step a batch with a LoRA a row, and the same batch without."""
    model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
    pipe = build(SIZE, device="cpu", dtype=torch.float32)
    runner = SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
    batches = {
        "plain": open_rows(runner, ()),
        "linear layers": open_rows(runner, LINEAR),
        "convolutions too": open_rows(runner, LINEAR + CONVOLUTIONS),
    }
    times: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(rounds + 1):
        for name, samples in batches.items():
            runner.overlays.adapters.apply(
                runner.packing.pack(samples).mixes
            )  # once for many steps
            times[name].append(cpu_s(partial(runner.forward, samples)))
    ratios = {
        name: median([a / b for a, b in zip(spent[1:], times["plain"][1:], strict=True)])
        for name, spent in times.items()
    }
    name = f"step of {ROWS} rows, a LoRA each / none: {{}}"
    return {
        f"step of {ROWS} rows": plain(1e3 * median(times["plain"][1:]), "ms, CPU time"),
        name.format("linear layers"): at_most(ratios["linear layers"], 1.10, "ratio"),
        name.format("convolutions too"): plain(ratios["convolutions too"], "ratio"),
    }


def open_rows(runner: DiffusionRunner, ends: tuple[str, ...]) -> list[UNetSample]:
    """Begin an image a row, each with a LoRA of its own for layers with these ends."""
    samples = []
    for at in range(ROWS):
        request = replace(a_job(runner.model, at, steps=50).request, guidance=1.0)
        shapes = runner.overlays.adapters.shapes
        lora = random_lora(f"{ends}{at}", shapes, ends, rank=RANK, seed=at) if ends else None
        mix = Mix.of([(lora, 1.0)]) if lora else PLAIN
        samples.append(runner.begin(request, at, None, mix))
    return samples


def main(
    quick: bool = typer.Option(False, help="Fewer rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    base: Path = typer.Option(Path("zoo/weights/shapes-xl"), help="The model of the LoRAs."),
    files: Path = typer.Option(Path("zoo/adapters/loras"), help="A folder of LoRAs."),
) -> None:
    """Measure LoRAs against stock diffusers with peft. Example: `python -m bench.lora --quick`."""
    torch.set_num_threads(1)
    figures = applying(1 if quick else 3, base, files)
    figures |= slow_fetches(5 if quick else 21, base, files)
    figures |= rows_apart(3 if quick else 7)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("lora", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
