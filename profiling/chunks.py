"""Resumable measurement: one file of images for each level and repeat."""

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from core.levels.level import Level
from core.model import Model
from profiling.generate import ImageGenerator, Memory
from profiling.plan import MeasurementPlan
from profiling.prompts import PromptSets

Pictures = NDArray[np.uint8]


def digest(folder: Path) -> str:
    """Hash the parts of a model folder: weights, configurations, tokenizers."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.glob("*/*") if path.is_file()):
        whole.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


class Chunks:
    """The images of one model that are made already, in a folder of their own."""

    def __init__(
        self, folder: Path, plan: MeasurementPlan, prompts: PromptSets, model: Model, digest: str
    ) -> None:
        """Open the folder of images by these weights; others are somewhere else."""
        self._plan = plan
        self._prompts = prompts
        self._folder = folder / f"{model.name}-{_key(plan, prompts, model, digest)}"

    def is_there(self, level: Level, repeat: int) -> bool:
        """Tell whether the images of a level were made already."""
        return self._path(level, repeat).exists()

    def has_memory(self, repeat: int) -> bool:
        """Tell whether the remembered prompts of a repeat have been run."""
        return self._memory_path(repeat).exists()

    def read(self, level: Level, repeat: int) -> Pictures:
        """Read the images of a level. Shapes: [P, H, W, 3]."""
        with np.load(self._path(level, repeat)) as file:
            pictures: Pictures = file["pictures"]
        return pictures

    def memory(self, repeat: int) -> Memory:
        """Read what the remembered prompts of a repeat left behind."""
        with np.load(self._memory_path(repeat)) as file:
            return Memory(
                latents=torch.from_numpy(file["latents"]),
                embeddings=torch.from_numpy(file["embeddings"]),
            )

    def similarity(self, level: Level, repeat: int) -> NDArray[np.float32]:
        """Read how similar each prompt is to the one it started from. Shapes: [P]."""
        with np.load(self._path(level, repeat)) as file:
            found: NDArray[np.float32] = file["similarity"]
        return found

    def make(self, maker: ImageGenerator, level: Level, repeat: int) -> None:
        """Make the images of a level, unless they are there."""
        if self.is_there(level, repeat):
            return
        prompts = self._prompts.measured
        if not level.approximation.needs_latents:
            pictures = maker.make(prompts, self._plan.seeds(repeat), level.approximation)
            _save(self._path(level, repeat), pictures=np.stack(pictures))
            return
        self._remember(maker, repeat)
        memory = self.memory(repeat)
        pictures, similarity = maker.resume(prompts, level, memory)
        _save(
            self._path(level, repeat),
            pictures=np.stack(pictures),
            similarity=np.array(similarity, np.float32),
        )

    def _remember(self, maker: ImageGenerator, repeat: int) -> None:
        path = self._memory_path(repeat)
        if not path.exists():
            prompts = self._prompts.remembered[repeat]
            memory = maker.remember(prompts, self._plan.seeds_of_memory(repeat))
            latents, embeddings = memory.latents.float(), memory.embeddings
            _save(path, latents=latents.numpy(), embeddings=embeddings.numpy())

    def _path(self, level: Level, repeat: int) -> Path:
        return self._folder / f"repeat{repeat}-skip{level.approximation.code}.npz"

    def _memory_path(self, repeat: int) -> Path:
        return self._folder / f"repeat{repeat}-memory.npz"


def _key(plan: MeasurementPlan, prompts: PromptSets, model: Model, digest: str) -> str:
    """Name all that decides the images: no other measurement may take them for its own."""
    terms = (digest, plan.steps_of(model), model.default_guidance, model.default_size)
    sets = (prompts.measured, prompts.remembered)  # as lists: how many are in each counts, too
    return hashlib.sha256(msgspec.json.encode((terms, sets))).hexdigest()[:16]


def _save(path: Path, **arrays: NDArray[np.generic]) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.stem}.part.npz")
    np.savez_compressed(aside, allow_pickle=False, **arrays)
    aside.replace(path)
