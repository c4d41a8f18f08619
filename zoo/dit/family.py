"""Transformers that are trained here: how, on which scenes, and what the service is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zoo.assemble import ServiceCard
from zoo.dit.flow import FlowRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One model of the transformer's layout."""

    #: How it is trained.
    recipe: FlowRecipe
    #: Scenes encoded, by scale and level.
    pool_sizes: Mapping[int, Mapping[int, int]]
    #: A stock folder whose transformer it starts from, if any.
    init: Path | None
    #: What the service is told of it.
    card: ServiceCard
    #: Side of its pictures, in sides of 64 pixels.
    scale: int = 1


MEMBERS = {
    "shapes-dit": Member(
        recipe=FlowRecipe(),
        pool_sizes={1: {1: 4096, 2: 16384, 3: 32768, 4: 16384, 5: 16384}},
        init=None,
        card=ServiceCard(name="shapes-dit", family="sd3"),
    ),
    "shapes-hd": Member(
        recipe=FlowRecipe(
            steps=7500,
            decay_steps=4500,
            batch=8,
            rate=8e-4,
            average=0.995,
            # What is left to learn are edges and textures, which the last of the noise decides.
            uniform=0.5,
            early_mix=(0.10, 0.34, 0.38, 0.06, 0.12),
            late_mix=(0.10, 0.34, 0.38, 0.06, 0.12),
            scales=((0.0, 3), (0.67, 4)),
        ),
        pool_sizes={
            3: {1: 256, 2: 4096, 3: 5120, 4: 1024, 5: 2048},
            4: {1: 256, 2: 2048, 3: 2560, 4: 512, 5: 1024},
        },
        init=Path("zoo/weights/shapes-dit"),
        card=ServiceCard(
            name="shapes-hd",
            family="sd3",
            default_steps=28,
            default_size=256,
            min_size=256,
            max_size=256,
            quality=0.6,
            step_s=0.25,
        ),
        scale=4,
    ),
}
