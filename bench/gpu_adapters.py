"""Benchmark ControlNets and LoRAs on a GPU against stock diffusers (Katz, Figure 14).

One image at a time of a model of SDXL's size with random weights, by either in turn: alone, with
one and three ControlNets, with one and two LoRAs. Stock loads LoRAs from their files with every
request, as its clients do; the engine has those of earlier requests in host memory. ControlNets
share the one card with the base model, so what their own devices would win is not in the figures.
As they are, and with both UNets compiled: stock's in one graph, which is captured anew wherever a
LoRA or a ControlNet changes it, and the engine's block by block. ControlNets are not compiled.

    python -m bench.gpu_adapters                                 one GPU with 24 GiB
    python -m bench.gpu_adapters --device cpu --size tiny --pixels 32 --steps 3 --dtype float32 \
        --quick --backend eager                                  a dry run, on any machine
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import diffusers
import numpy as np
import torch
import typer
from PIL import Image
from safetensors.torch import save_file

from bench.parts.local_controlnets import LocalControlNets
from bench.parts.place import Place
from bench.parts.random_lora import LINEAR, random_lora
from bench.parts.random_sdxl import SIZES
from bench.parts.report import Figure, finish, machine, median, plain
from bench.parts.steered import random_controlnet
from bench.parts.subject import a_job, make_stock, running, stock_pipeline
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, parse
from core.job import Control, Job
from core.uploads.lora import AppliedLora
from worker.control.server.model_cache import ModelCache
from worker.control.server.unet_network import UNetNetwork
from worker.diffusion.device import DTYPES
from worker.diffusion.runner import ControlImages
from worker.diffusion.stock import Module, Pipe
from worker.engine.engine import Engine
from worker.families.sdxl import SdxlRunner
from worker.lora.cache import LoraCache

RANK = 32
ROWS = (2,)  #: of one image with guidance


@dataclass(frozen=True, slots=True)
class Case:
    """What an image is made with, beside its base model."""

    controls: int = 0
    loras: int = 0

    def __str__(self) -> str:
        parts = [f"{self.controls} ControlNet"] if self.controls else []
        parts += [f"{self.loras} LoRA"] if self.loras else []
        return f"+ {', '.join(parts)}" if parts else "base"


CASES = (Case(), Case(controls=1), Case(controls=3), Case(loras=1), Case(loras=2))


class Files:
    """LoRAs of a folder, at hand at once."""

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[torch.Tensor, list[LayerChange]]]":
        data = bytearray(Path(use.key).read_bytes())
        answer: Future[tuple[torch.Tensor, list[LayerChange]]] = Future()
        answer.set_result((torch.frombuffer(data, dtype=torch.uint8), parse(data, shapes)))
        return answer


class Ours:
    """The engine with everything that it needs for any case."""

    def __init__(self, runner: SdxlRunner, nets: Sequence[Module], files: Sequence[Path]) -> None:
        self._runner = runner
        self._files = files
        known = {
            name_of(at): UNetNetwork(net, device=runner.device, dtype=runner.dtype)
            for at, net in enumerate(nets)
        }
        runner.overlays.steer(LocalControlNets(ModelCache(known.__getitem__, 2**40)))
        runner.overlays.use_loras(LoraCache(Files(), 2**34))

    def make(self, engine: Engine, job: Job, case: Case, picture: np.ndarray) -> None:
        """Make the images of a job."""
        controls = tuple(Control(controlnet=name_of(at), image="") for at in range(case.controls))
        uses = tuple(
            AppliedLora(id=file.stem, key=str(file), models=(), bound=0, size_bytes=1, sha256="")
            for file in self._files[: case.loras]
        )
        asked = replace(job, request=replace(job.request, controls=controls, loras=uses))
        brought = ControlImages(images=(picture,) * case.controls) if controls else None
        engine.add(asked, None, brought).result()


class Stock:
    """The stock pipelines on weights of their own: peft replaces layers."""

    def __init__(self, pipe: Pipe, nets: Sequence[Module], files: Sequence[Path]) -> None:
        self._pipe = pipe
        self._files = files
        self._steered = [
            diffusers.StableDiffusionXLControlNetPipeline(
                **pipe.components, controlnet=list(nets[:count])
            )
            for count in range(1, len(nets) + 1)
        ]
        for steered in self._steered:
            steered.set_progress_bar_config(disable=True)

    def make(self, job: Job, case: Case, picture: np.ndarray) -> None:
        """Make the images of a job."""
        for file in self._files[: case.loras]:
            self._pipe.load_lora_weights(file.parent, weight_name=file.name, adapter_name=file.stem)
        if case.loras:
            self._pipe.set_adapters([file.stem for file in self._files[: case.loras]])
        if case.controls:
            steered = self._steered[case.controls - 1]
            images = [Image.fromarray(picture)] * case.controls
            make_stock(partial(steered, image=images), job.request)
        else:
            make_stock(self._pipe, job.request)
        if case.loras:
            self._pipe.unload_lora_weights()


def name_of(number: int) -> str:
    """Name a ControlNet."""
    return f"net-{number}"


def make_loras(folder: Path, shapes: Shapes, most: int) -> list[Path]:
    """Write LoRAs with random weights, as peft does."""
    files = []
    for at in range(most):
        lora = random_lora(f"lora-{at}", shapes, LINEAR, rank=RANK, seed=at)
        tensors = {}
        for layer, product in lora.products.items():
            tensors[f"{layer}.lora_A.weight"] = product.down
            tensors[f"{layer}.lora_B.weight"] = product.up
        files.append(folder / f"lora-{at}.safetensors")
        save_file(tensors, files[-1])
    return files


def measure(
    folder: Path, place: Place, cases: Sequence[Case], rounds: Iterable[int], *, is_compiled: bool
) -> Iterator[dict[str, Figure]]:
    """Make images in every case, engine and stock in turn; give the medians after each round.

    The first round warms up.
    """
    torch.compiler.reset()
    runner, other = place.runner(), place.runner()
    if is_compiled:
        runner.compile(ROWS, backend=place.backend)
        other.pipe.unet.compile(dynamic=False, backend=place.backend)
    most_controls = max(case.controls for case in cases)
    files = make_loras(folder, runner.overlays.adapters.shapes, max(c.loras for c in cases))
    embedding = (16, 32, 96, 256)[: len(SIZES[place.size].vae_channels)]
    with place.device:  # to draw so many weights takes one core of a host most of a minute
        pools = [
            [
                random_controlnet(each.pipe.unet, embedding).to(place.dtype)
                for _ in range(most_controls)
            ]
            for each in (runner, other)
        ]
    ours, stock = Ours(runner, pools[0], files), Stock(stock_pipeline(other), pools[1], files)
    side, numbers = place.pixels, count()
    picture = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    spent: dict[Case, list[tuple[float, float]]] = {case: [] for case in cases}
    with running(runner) as engine:
        for at in rounds:
            for case in cases:
                job = a_job(runner.model, next(numbers), steps=place.steps)
                theirs_s = place.seconds_of(partial(stock.make, job, case, picture))
                ours_s = place.seconds_of(partial(ours.make, engine, job, case, picture))
                if at:
                    spent[case].append((theirs_s, ours_s))
            if at:
                yield {n: f for c, times in spent.items() for n, f in _shown(str(c), times).items()}


def _shown(case: str, times: Sequence[tuple[float, float]]) -> dict[str, Figure]:
    return {
        f"{case}, stock": plain(median([stock for stock, _ in times]), "s"),
        f"{case}, engine": plain(median([ours for _, ours in times]), "s"),
        f"{case}, stock / engine": plain(median([stock / ours for stock, ours in times]), "ratio"),
    }


def main(
    quick: bool = typer.Option(False, help="One round."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    device: str = typer.Option("cuda", help="`cpu` only for a dry run."),
    size: str = typer.Option("sdxl", help="`tiny` for a dry run."),
    dtype: str = typer.Option("bfloat16", help="Of all weights."),
    compiled: bool | None = typer.Option(None, help="Only compiled, or only not."),
    backend: str = typer.Option("inductor", help="`eager` for a dry run: no kernels are made."),
    steps: int = typer.Option(30),
    pixels: int = typer.Option(1024),
) -> None:
    """Measure adapters on a GPU against stock. Example: `python -m bench.gpu_adapters`."""
    torch.set_num_threads(1)
    place = Place(
        device=torch.device(device),
        size=size,
        dtype=DTYPES[dtype],
        pixels=pixels,
        steps=steps,
        backend=backend,
    )
    rounds = range(2 if quick else 6)
    figures: dict[str, Figure] = {}
    for is_compiled in [False, True] if compiled is None else [compiled]:
        with tempfile.TemporaryDirectory() as folder:
            [*_, found] = measure(Path(folder), place, CASES, rounds, is_compiled=is_compiled)
        kind = "compiled" if is_compiled else "eager"
        figures |= {f"{kind}: {name}": figure for name, figure in found.items()}
    where = machine(f"torch {torch.__version__}", str(place))
    raise SystemExit(finish("gpu_adapters", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
