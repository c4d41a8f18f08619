"""Measure late-loading bounds of LoRAs, for every model that a file fits, once."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from catalog.lora.layers import read_shapes
from catalog.lora.names import Shapes
from catalog.lora.parse import parse
from core.errors import WeightsRefused
from core.job import JobRequest
from core.model import Model
from profiling.lora_bound import bound_of, likeness
from profiling.measure import MeasurementPlace, bar
from profiling.requests import requests_of
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.load import load
from worker.lora.mix import Lora, Mix

#: Images that are compared for one LoRA.
COMPARED = 10

#: model -> SHA-256 of a LoRA's file -> K of 50
Known = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How long images of one model may do without one LoRA."""

    model: str
    sha256: str  #: of the LoRA's file, whatever it is called
    skipped: int  #: K of 50


def measure_bounds(
    models: Mapping[str, Model],
    place: MeasurementPlace,
    folder: Path,
    known: Known,
    prompts: Sequence[str],
    console: Console,
) -> Iterator[Bound]:
    """Measure the LoRAs of a folder that are not known yet; others than LoRAs are passed over.

    Raises:
        BadWeights: a model cannot be loaded; it names the file.
    """
    files = {_sha256(file): file for file in sorted(folder.rglob("*.safetensors"))}
    for name, model in models.items():
        shapes = read_shapes(place.models / name)
        left = {
            sha256: file
            for sha256, file in files.items()
            if sha256 not in known.get(name, {}) and _fits(file, shapes)
        }
        if not left:
            continue
        runner = load(place.models / name, model, device=place.device, dtype=place.dtype)
        assert isinstance(runner, DiffusionRunner)  # no other has layers that a LoRA fits
        requests = requests_of(model, prompts)
        with bar(console, f"LoRAs of {name}", len(left) * len(prompts)) as tick:
            for sha256, file in left.items():
                skipped = _bound(
                    runner, read_lora(file, runner.overlays.adapters.shapes), requests, tick
                )
                yield Bound(model=name, sha256=sha256, skipped=skipped)
        runner.close()


def read_lora(file: Path, shapes: Shapes) -> Lora:
    """Read a LoRA for a model with these layers. Raises: WeightsRefused."""
    data = bytearray(file.read_bytes())
    return Lora.of(file.stem, torch.frombuffer(data, dtype=torch.uint8), parse(data, shapes))


def _bound(
    runner: DiffusionRunner, lora: Lora, requests: list[JobRequest], tick: Callable[[int], None]
) -> int:
    curves = []
    for request in requests:
        curves.append(likeness(runner, request, Mix.of([(lora, 1.0)])))
        tick(1)
    return bound_of(curves)


def _fits(file: Path, shapes: Shapes) -> bool:
    try:
        return bool(parse(file.read_bytes(), shapes))
    except WeightsRefused:
        return False


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
