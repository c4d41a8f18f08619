"""How are the images of a draw made and judged, once and for all? A file a draw."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from core.variant import Level, Model
from worker.affinity.labels import Labels, Origin, labels_of
from worker.pipeline import load
from zoo.prompts import VERSION, Split
from zoo.quality import draws
from zoo.quality.chunks import digest
from zoo.quality.draws import Draw
from zoo.quality.maker import Maker, Memory
from zoo.quality.plan import Plan
from zoo.quality.score import Scores, judge
from zoo.scenes import Scene

JUDGE = "half for being right in every part, half for the share of right parts"
_LIBRARIES = ("torch", "diffusers", "transformers", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What images are made with, and where what they are like is kept."""

    models: Mapping[str, Model]
    folder: Path  #: one folder a model
    work: Path
    steps: int  #: of a full schedule
    remembered: int  #: prompts of one memory
    digests: Mapping[str, str] = field(default_factory=dict)  #: of the models' weights

    @property
    def own(self) -> Path:
        """Where all is kept that these weights made in so many steps."""
        named = "".join(f"{name} {each}\n" for name, each in sorted(self.digests.items()))
        return (
            self.work
            / f"{self.steps}-{self.remembered}-{hashlib.sha256(named.encode()).hexdigest()[:12]}"
        )


def open_bench(
    models: Mapping[str, Model], folder: Path, work: Path, *, steps: int, remembered: int
) -> Bench:
    """Look at the weights."""
    return Bench(
        models=models,
        folder=folder,
        work=work,
        steps=steps,
        remembered=remembered,
        digests={name: digest(folder / name) for name in models},
    )


class Labeller:
    """Makes draws and judges them; a draw that was judged is not made again."""

    def __init__(self, bench: Bench, split: Split, scenes: Sequence[Scene]) -> None:
        self._bench = bench
        self._split = split
        self._scenes = scenes
        self._makers: dict[str, Maker] = {}
        self._memories: dict[tuple[str, int], Memory] = {}

    def is_done(self, draw: Draw) -> bool:
        """Tell whether a draw was judged."""
        return self._path(draw).exists()

    def label(self, draw: Draw) -> None:
        """Make the images of a draw and write down what they are like."""
        scenes = [self._scenes[row] for row in draw.rows]
        found = judge(self._pictures(draw, [scene.caption for scene in scenes]), scenes, None)
        judged = {"rows": draw.rows, "strict": found.strict.tolist(), "share": found.share.tolist()}
        path = self._path(draw)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(judged))
        aside.replace(path)

    def labels(self, levels: Sequence[Level]) -> Labels:
        """Put what was judged so far into one table."""
        found: list[dict[str, list[float]]] = [{} for _ in self._scenes]
        for path in sorted((self._bench.own / self._split).glob("*.json")):
            judged = json.loads(path.read_text())
            scores = Scores(strict=np.array(judged["strict"]), share=np.array(judged["share"]))
            level = path.stem.rpartition("-")[0]
            for row, each in zip(judged["rows"], scores.quality.tolist(), strict=True):
                found[row].setdefault(level, []).append(each)
        named = [(s.caption, row) for s, row in zip(self._scenes, found, strict=True) if row]
        return labels_of([level.name for level in levels], named, self._origin())

    def _pictures(self, draw: Draw, prompts: Sequence[str]) -> list[np.ndarray]:
        maker = self._maker(draw.level.model)
        if draw.level.skipped_steps == 0:
            return maker.make(prompts, draw.seeds)
        pictures, _ = maker.resume(prompts, draw.level, self._memory(maker, draw.memory))
        return pictures

    def _maker(self, name: str) -> Maker:
        if name not in self._makers:
            model = self._bench.models[name]
            runner = load(self._bench.folder / name, model, device="cpu", dtype="float32")
            steps = Plan(steps=self._bench.steps).steps_of(model)
            self._makers[name] = Maker(runner, steps, lambda taken: None)
        return self._makers[name]

    def _memory(self, maker: Maker, number: int) -> Memory:
        key = (maker.model.name, number)
        if key not in self._memories:
            path = self._bench.own / f"memory-{key[0]}-{number}.pt"
            if not path.exists():
                self._remember(maker, number, path)
            latents, embeddings = torch.load(path)
            self._memories[key] = Memory(latents=latents, embeddings=embeddings)
        return self._memories[key]

    def _remember(self, maker: Maker, number: int, path: Path) -> None:
        scenes, seeds = draws.remembered(number, self._bench.remembered)
        memory = maker.remember([scene.caption for scene in scenes], seeds)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        torch.save((memory.latents, memory.embeddings), aside)
        aside.replace(path)

    def _path(self, draw: Draw) -> Path:
        return self._bench.own / self._split / f"{draw.level.name}-{draw.number}.json"

    def _origin(self) -> Origin:
        return Origin(
            digests=self._bench.digests,
            prompts=f"{VERSION} {self._split}",
            steps=self._bench.steps,
            remembered=self._bench.remembered,
            judge=JUDGE,
            versions={name: version(name) for name in _LIBRARIES},
        )
