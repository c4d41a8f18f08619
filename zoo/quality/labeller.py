"""Generate and judge the images of a draw."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from classifier.labels import Origin
from core.model import Model
from profiling.chunks import digest
from profiling.generate import ImageGenerator, Memory
from profiling.plan import MeasurementPlan
from worker.families.load import load
from zoo.prompts import VERSION, Split
from zoo.quality import draws
from zoo.quality.draws import Draw
from zoo.quality.verdict import judge
from zoo.scenes import Scene

JUDGE = "half for being right in every part, half for the share of right parts"
_LIBRARIES = ("torch", "diffusers", "transformers", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What images are made with, and where what they start from is kept."""

    models: Mapping[str, Model]
    folder: Path  #: one folder a model
    work: Path
    steps: int  #: of a full schedule
    remembered: int  #: prompts of one memory
    dtype: str = "float32"
    digests: Mapping[str, str] = field(default_factory=dict)  #: of the models' weights

    @property
    def own(self) -> Path:
        """Where all is kept that these weights made in so many steps."""
        named = "".join(f"{name} {each}\n" for name, each in sorted(self.digests.items()))
        made_by = hashlib.sha256(f"{named}{self.dtype}\n".encode()).hexdigest()[:12]
        return self.work / f"{self.steps}-{self.remembered}-{made_by}"

    def origin(self, split: Split) -> Origin:
        """Say how images are made and judged here; precision does not count (docs/adr/0009)."""
        return Origin(
            digests=self.digests,
            prompts=f"{VERSION} {split}",
            steps=self.steps,
            remembered=self.remembered,
            judge=JUDGE,
            versions={name: version(name) for name in _LIBRARIES},
        )


def open_bench(
    models: Mapping[str, Model],
    folder: Path,
    work: Path,
    *,
    steps: int,
    remembered: int,
    dtype: str = "float32",
) -> Bench:
    """Look at the weights."""
    return Bench(
        models=models,
        folder=folder,
        work=work,
        steps=steps,
        remembered=remembered,
        dtype=dtype,
        digests={name: digest(folder / name) for name in models},
    )


class Labeller:
    """Makes draws and judges them; what levels with K > 0 start from is made once."""

    def __init__(self, bench: Bench, scenes: Sequence[Scene]) -> None:
        self._bench = bench
        self._scenes = scenes
        self._makers: dict[str, ImageGenerator] = {}
        self._memories: dict[tuple[str, int], Memory] = {}

    def label(self, draw: Draw) -> list[float]:
        """Make the images of a draw and judge each, in [0, 1]."""
        scenes = [self._scenes[row] for row in draw.rows]
        pictures = self._pictures(draw, [scene.caption for scene in scenes])
        found: list[float] = judge(pictures, scenes, None).quality.tolist()
        return found

    def _pictures(self, draw: Draw, prompts: Sequence[str]) -> list[np.ndarray]:
        maker = self._maker(draw.level.model)
        if not draw.level.approximation.needs_latents:
            return maker.make(prompts, draw.seeds, draw.level.approximation)
        pictures, _ = maker.resume(prompts, draw.level, self._memory(maker, draw.memory))
        return pictures

    def _maker(self, name: str) -> ImageGenerator:
        if name not in self._makers:
            model = self._bench.models[name]
            runner = load(self._bench.folder / name, model, device="cpu", dtype=self._bench.dtype)
            steps = MeasurementPlan(steps=self._bench.steps).steps_of(model)
            self._makers[name] = ImageGenerator(runner, steps, lambda taken: None)
        return self._makers[name]

    def _memory(self, maker: ImageGenerator, number: int) -> Memory:
        key = (maker.model.name, number)
        if key not in self._memories:
            path = self._bench.own / f"memory-{key[0]}-{number}.pt"
            if not path.exists():
                self._remember(maker, number, path)
            latents, embeddings = torch.load(path)
            self._memories[key] = Memory(latents=latents, embeddings=embeddings)
        return self._memories[key]

    def _remember(self, maker: ImageGenerator, number: int, path: Path) -> None:
        scenes, seeds = draws.remembered(number, self._bench.remembered)
        memory = maker.remember([scene.caption for scene in scenes], seeds)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        torch.save((memory.latents, memory.embeddings), aside)
        aside.replace(path)
