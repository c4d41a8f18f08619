"""Pool of imperfect pictures with exact judgements, to train the scorer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import torch
from diffusers import DiffusionPipeline
from safetensors.torch import load_file, save_file
from torch import Tensor

from zoo.checker import check
from zoo.evaluate import Settings, generate, through_autoencoder
from zoo.scenes import LEVELS, Picture, Scene, training_scene
from zoo.scorer.flaws import flawed

#: Denoising steps and guidance by turns: from a hurried sketch to what the model can do.
MIXED_QUALITY = tuple(product((2, 4, 8, 20), (1.0, 2.5, 4.0)))

_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Pictures of training scenes, and how right they are."""

    #: [N, 64, 64, 3], 0 to 255.
    pictures: Tensor
    #: Level, seed and index of the training scene of each, [N, 3].
    addresses: Tensor
    #: Share of the parts of the caption that each shows, [N].
    shares: Tensor

    @classmethod
    def join(cls, parts: Sequence["Judged"]) -> "Judged":
        """Put pictures behind each other."""
        return cls(
            pictures=torch.cat([part.pictures for part in parts]),
            addresses=torch.cat([part.addresses for part in parts]),
            shares=torch.cat([part.shares for part in parts]),
        )

    def scene(self, at: int) -> Scene:
        """Compose the scene that picture number `at` should show."""
        level, seed, index = self.addresses[at].tolist()
        return training_scene(level, seed, index)


def addresses(n: int, seed: int, first: int) -> list[tuple[int, int, int]]:
    """List n training scenes of all levels by turns, numbered from `first`."""
    return [(LEVELS[at % len(LEVELS)], seed, first + at // len(LEVELS)) for at in range(n)]


def draw_flawed(pipeline: DiffusionPipeline, scenes: Sequence[Scene], seed: int) -> list[Picture]:
    """Draw scenes with flaws, every other one through the autoencoder, as generated ones are."""
    pictures = [flawed(each, Random(f"flawed/{seed}/{at}")) for at, each in enumerate(scenes)]
    for start in range(0, len(pictures), 2 * _CHUNK):
        part = slice(start, start + 2 * _CHUNK, 2)
        pictures[part] = through_autoencoder(pipeline, pictures[part])
    return pictures


def generate_mixed(
    pipeline: DiffusionPipeline, scenes: Sequence[Scene], seed: int
) -> list[Picture]:
    """Generate pictures of mixed quality, a few steps and more, weakly guided and strongly."""
    pictures: list[Picture] = []
    kinds = len(MIXED_QUALITY)
    share = -(-len(scenes) // kinds)
    for at, (steps, guidance) in enumerate(MIXED_QUALITY):
        captions = [scene.caption for scene in scenes[at * share : (at + 1) * share]]
        settings = Settings(steps=steps, guidance=guidance, seed=seed + at * share)
        pictures += generate(pipeline, captions, settings)
    return pictures


Draw = Callable[[DiffusionPipeline, Sequence[Scene], int], list[Picture]]


def judged(
    path: Path,
    pipeline: Callable[[], DiffusionPipeline],
    draw: Draw,
    where: Sequence[tuple[int, int, int]],
) -> Judged:
    """Draw and judge pictures of training scenes, or read those drawn before."""
    if not path.exists():
        scenes = [training_scene(*each) for each in where]
        pictures = draw(pipeline(), scenes, where[0][1])
        shares = [check(each, scene).share for each, scene in zip(pictures, scenes, strict=True)]
        _write(path, pictures, where, shares)
    fields = load_file(path)
    return Judged(
        pictures=fields["pictures"], addresses=fields["addresses"], shares=fields["shares"]
    )


def _write(
    path: Path,
    pictures: Sequence[Picture],
    where: Sequence[tuple[int, int, int]],
    shares: Sequence[float],
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {
        "pictures": torch.from_numpy(np.stack(pictures)).contiguous(),
        "addresses": torch.tensor(where),
        "shares": torch.tensor(shares),
    }
    partial = path.with_suffix(".partial")
    save_file(fields, partial)
    partial.rename(path)
