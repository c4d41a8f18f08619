"""Captioned 64x64 scenes of five levels of difficulty, each a pure function of its address."""

from random import Random

from zoo.scenes.grammar import LEVELS, compose
from zoo.scenes.render import Picture, draw
from zoo.scenes.spec import Bond, Figure, Noun, Scene

__all__ = [
    "LEVELS",
    "Bond",
    "Figure",
    "Noun",
    "Picture",
    "Scene",
    "compose",
    "draw",
    "held_out",
    "held_out_scene",
    "prompts",
    "training_scene",
]


def training_scene(level: int, seed: int, index: int) -> Scene:
    """Compose training scene number `index` of a level."""
    return compose(Random(f"training/{seed}/{level}/{index}"), level)


def held_out(level: int, n: int, seed: int) -> list[Scene]:
    """Compose n scenes of a level that no training seed reaches."""
    return [held_out_scene(level, seed, index) for index in range(n)]


def held_out_scene(level: int, seed: int, index: int) -> Scene:
    """Compose held-out scene number `index` of a level."""
    return compose(Random(f"held out/{seed}/{level}/{index}"), level)


def prompts(level: int, n: int, seed: int) -> list[str]:
    """Word n held-out prompts of a level; at level 1 only 42 different ones exist."""
    return [scene.caption for scene in held_out(level, n, seed)]
