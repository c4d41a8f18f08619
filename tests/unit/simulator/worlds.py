"""Small worlds to simulate."""

from dataclasses import replace

import numpy as np

from core.model import Model
from loadgen.prompts import PromptSet
from loadgen.workload import Workload
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import EVERY, LevelFamily, Measured
from simulator.world import World
from worker.engine.slowdown import StepTime

TYPE = "gpu"
FIXED_S = 0.4
#: model -> seconds of a step of one image, seconds to load, GiB, quality
SIZES = {"large": (0.1, 8.0, 10.0, 1.0), "small": (0.04, 2.0, 3.0, 0.7)}
LEVELS = {"large@0": 1.0, "large@10": 0.95, "large@25": 0.8, "small@0": 0.6}


def a_profile(names=tuple(SIZES), curve=(1.0, 1.9, 2.8, 3.7)) -> Profile:
    """Two models, of which one has latents to start from, or one of them."""
    models = {
        name: Model(
            name=name,
            family="sdxl",
            default_steps=50 if name == "large" else 20,
            step_s=step_s,
            load_s=load_s,
            size_gib=gib,
            quality=quality,
        )
        for name, (step_s, load_s, gib, quality) in SIZES.items()
        if name in names
    }
    steps = {
        name: tuple(
            StepTime(images=n, is_guided=True, seconds=step_s * share)
            for n, share in enumerate(curve, start=1)
        )
        for name, (step_s, *_) in SIZES.items()
    }
    known = {level: quality for level, quality in LEVELS.items() if level.split("@")[0] in names}
    family = LevelFamily(
        levels=tuple(reversed(known)), shares={list(known)[-1]: 1.0}, quality={"any": known}
    )
    measured = Measured(
        load={TYPE: {name: load_s for name, (_, load_s, *_) in SIZES.items()}},
        steps={TYPE: steps},
        fixed={TYPE: dict.fromkeys(SIZES, FIXED_S)},
        families={EVERY: family},
    )
    return Profile(models=models, measured=measured)


def some_prompts() -> PromptSet:
    """Two classes: one loses a lot at fast levels, one little."""
    return PromptSet(
        texts=("an easy one", "a hard one"),
        classes=("easy", "hard"),
        levels=tuple(LEVELS),
        quality=np.array([[1.0, 0.99, 0.97, 0.95], [1.0, 0.8, 0.5, 0.3]]),
    )


def a_world(at_s, *, workers: int = 2, **changes) -> World:
    """A fleet of one type and requests at given moments, unless told otherwise."""
    prompts = some_prompts()
    count = len(at_s)
    given = {
        "fleet": {TYPE: workers},
        "profile": a_profile(),
        "workload": Workload.of(at_s, prompts=prompts.texts, prompt=np.arange(count) % 2),
        "prompts": prompts,
        "slo_s": 15.0,
        "patience_s": 120.0,
    }
    return World(**(given | changes))


def of_one_model(at_s, name: str = "large", **changes) -> World:
    """Serve one model alone."""
    return a_world(at_s, profile=a_profile((name,)), **changes)


def with_columns(world: World, **columns) -> World:
    """Give the requests of a world other columns."""
    load = world.workload
    changed = Workload.of(load.at_s, prompts=load.prompts, prompt=load.prompt, **columns)
    return replace(world, workload=changed)
