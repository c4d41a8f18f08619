"""Complete what is known of prompts by what a profile says of their class. Pure."""

from dataclasses import replace

import numpy as np

from classifier.classes import Classes
from loadgen.prompts import PromptSet
from scheduler.profile.profile import Profile
from scheduler.routing.classify import ANY
from simulator.world import World


def completed(world: World) -> World:
    """Know every prompt of the workload at every level, and plan by the classes of prompts.

    Where nobody judged a prompt it is as good as its class is in the profile.
    """
    prompts = _with_texts(world.prompts, world.workload.prompts)
    profile = classed(world.profile, prompts)
    return replace(world, profile=profile, prompts=_filled(prompts, profile))


def classed(profile: Profile, prompts: PromptSet) -> Profile:
    """Give a profile the classes of the prompts, unless it knows those of a classifier."""
    names = np.array([name or ANY for name in prompts.classes])
    found = sorted(set(names.tolist()))
    if profile.shares or not prompts.levels or found == [ANY]:
        return profile
    rows = {name: _means(prompts, names == name) for name in found}
    return profile.with_classes(
        Classes(
            shares={name: float((names == name).mean()) for name in found},
            quality=rows,
            overall=_means(prompts, np.ones(len(names), np.bool_)),
            centres={},
        )
    )


def _with_texts(prompts: PromptSet, texts: tuple[str, ...]) -> PromptSet:
    """Add prompts of which nothing is known."""
    new = tuple(dict.fromkeys(set(texts) - set(prompts.texts)))
    if not new:
        return prompts
    unknown = np.full((len(new), len(prompts.levels)), np.nan)
    return replace(
        prompts,
        texts=(*prompts.texts, *sorted(new)),
        classes=(*prompts.classes, *(None for _ in new)),
        quality=np.concatenate([prompts.quality, unknown]),
    )


def _filled(prompts: PromptSet, profile: Profile) -> PromptSet:
    every = replace(profile, can_resume=True)
    levels = {level.name: level for level in every.levels}
    names = tuple(dict.fromkeys((*prompts.levels, *levels)))
    quality = np.full((len(prompts), len(names)), np.nan)
    quality[:, : len(prompts.levels)] = prompts.quality
    kinds = np.array([name or ANY for name in prompts.classes])
    for column, name in enumerate(names):
        lacks = np.isnan(quality[:, column])
        if name in levels and lacks.any():
            for kind in sorted(set(kinds[lacks].tolist())):
                chosen = lacks & (kinds == kind)
                quality[chosen, column] = every.quality(kind, levels[name])
    return replace(prompts, levels=names, quality=quality)


def _means(
    prompts: PromptSet, rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> dict[str, float]:
    """Average some prompts at the levels at which each of them is known."""
    some = prompts.quality[rows]
    means = {level: float(some[:, column].mean()) for column, level in enumerate(prompts.levels)}
    return {level: mean for level, mean in means.items() if not np.isnan(mean)}
